"""Measures: each sums over the rows of a pass and returns a Report; none prints."""
