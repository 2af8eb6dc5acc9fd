"""A discrete-event model of the three cache paths. Pure: the same input and seed give the same figures."""
