"""How long a pass takes on a device: kernels, communication, and the plans of many devices."""
