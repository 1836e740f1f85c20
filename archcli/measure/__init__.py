"""Measures: one fold over the rows per file. Each returns a Report and prints nothing."""
