"""What the user wrote: loading the inventory, the typed site model, and lints with positions."""
