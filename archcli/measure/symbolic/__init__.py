"""Symbolic: the forward read with sympy symbols or numpy arrays."""
