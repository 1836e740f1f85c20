"""Which devices to choose for a model: all devices, counts, formats and engines at once."""
