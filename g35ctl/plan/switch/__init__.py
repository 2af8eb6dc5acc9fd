"""Switch configurations, rendered from the one traffic contract and never pushed."""
