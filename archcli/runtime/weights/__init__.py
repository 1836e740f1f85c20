"""Weights: tensors of a checkpoint in the built model, and logits beside those of transformers."""
