"""Sweep: which shapes of an architecture meet conditions, and which of those are best."""
