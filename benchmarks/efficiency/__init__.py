"""Fits of the constants of devices; see benchmarks/fit_efficiency.py."""
