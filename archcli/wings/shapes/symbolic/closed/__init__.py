"""Closed: the numbers of a model's reports as functions of its sizes, and as JavaScript."""
