"""Checkpoints: the names, shapes and dtypes of stored tensors."""
