"""What is: reading the state of hosts and of the cluster's own services."""
