"""Weights: the tensors of a checkpoint, beside those of an architecture."""
