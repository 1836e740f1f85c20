"""A program of somebody else's, watched while it trains: its steps, modules, kernels and FLOPs."""
