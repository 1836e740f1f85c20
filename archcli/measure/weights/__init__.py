"""Weights: their names and shapes, the bytes they take, and a checkpoint compared with them."""
