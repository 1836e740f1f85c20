"""The parts of a report: a model with its closed forms, where it fits, and where it stands."""
