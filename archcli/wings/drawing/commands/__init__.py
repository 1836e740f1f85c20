"""Subcommands of drawing: a file with a function `run` for each, whose docstring is the help."""
