"""Whole models: stacks of layers between their ends."""
