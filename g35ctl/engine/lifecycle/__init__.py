"""Acts on a fleet in service: drain, fail over, bring back, rebalance, remove, tear down."""
