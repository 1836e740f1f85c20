"""The ranks of a plan as processes: each builds its share of the model, and they exchange tensors."""
