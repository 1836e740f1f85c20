"""The Python functions of shapes: a file for each question, with its checks."""
