"""Names of stored tensors: which of our weights each tensor of a checkpoint holds."""
