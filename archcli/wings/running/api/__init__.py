"""The Python functions of running: a file for each question, with its checks."""
