"""The best plan for a number of devices: which there are, which fit, and which is the fastest."""
