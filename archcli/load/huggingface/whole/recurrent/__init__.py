"""Whole decoders whose layers carry a state."""
