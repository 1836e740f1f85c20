"""The Python functions of serving: a file for each question, with its checks."""
