"""What a site's model and workload ask of its tiers: bytes, contexts, knees, bandwidth, endurance and cost. Pure."""
