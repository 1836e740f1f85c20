"""Sweep: the shapes of an architecture that meet conditions, and the best of them."""
