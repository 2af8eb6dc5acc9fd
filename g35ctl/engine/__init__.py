"""Makes it so: stages, ansible-runner, events, progress, ledger, locks."""
