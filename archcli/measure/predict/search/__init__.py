"""The best plan for a number of devices: which there are, which fit into memory, and which is the fastest."""
