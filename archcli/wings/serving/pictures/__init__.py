"""Pictures of memory, of a prediction and of what fits a device."""
