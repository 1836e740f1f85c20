"""Profiles: counted costs joined with measured times, folded by class and operator, and reported.

`charges` says where costs stand, and `fold` joins them with a recording. `quality` judges it, `reports` print
it. `schema` describes the JSON. `extrapolate` is for models that do not fit into memory.
"""
