"""A report in Python: HTML for notebooks, a DataFrame."""
