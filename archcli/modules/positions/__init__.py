"""Positions: tables, rotations, and biases on scores."""
