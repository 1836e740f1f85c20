"""Weights: load a checkpoint into the built model, and compare logits with transformers."""
