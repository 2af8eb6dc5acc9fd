"""Judges what was read and measured: checks, thresholds, verdicts."""
