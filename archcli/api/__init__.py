"""The Python API under the command line: a file for each question, with its checks."""
