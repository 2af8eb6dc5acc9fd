"""The command line: one small file per verb; parse, call, print. Nothing here decides."""
