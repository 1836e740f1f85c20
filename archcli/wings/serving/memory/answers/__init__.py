"""Answers about memory: the report, kept bytes by row, what fits, and changes that would fit."""
