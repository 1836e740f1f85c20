"""The parts of fit_engines.py: tables, what is fitted on them, fits, and the YAML they are written to."""
