"""Attention: masks, positions, and where queries, keys and values come from."""
