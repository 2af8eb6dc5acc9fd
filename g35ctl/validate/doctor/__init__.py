"""From readings to causes: what is wrong, why it is thought so, and what to do about it."""
