"""Tapes of passes on tensors without values: of all operations, and of the cache before them."""
