"""Hugging Face: a config.json to a tree of nodes, and the names of its checkpoint's tensors."""
