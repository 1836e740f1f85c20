"""The parts of a report: a model with its closed forms, where it fits, where it stands, and in formulas."""
