"""What a run of a model is recorded as: operations by class, the machine, and the JSON of a profile."""
