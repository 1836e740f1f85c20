"""One file per subcommand, each with one function `run`: options, load, measure, show. Its docstring is the help."""
