"""Extrapolation: from small stacks of each kind of layer to a model that does not fit into memory."""
