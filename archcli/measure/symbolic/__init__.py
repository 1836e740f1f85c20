"""Symbolic: counting with sympy symbols or numpy arrays as sizes."""
