"""Answers about memory: the report, what is kept by row, what fits, and what else could be done."""
