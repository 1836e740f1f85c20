"""The Python functions of drawing: a file for each question, with its checks."""
