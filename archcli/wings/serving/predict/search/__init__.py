"""The best plan for a number of devices: all plans, those that fit, the fastest."""
