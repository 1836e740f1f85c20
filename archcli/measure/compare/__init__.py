"""Compare: architectures side by side, in what they state and in what they cost.

differences: which settings of the YAML are not the same; figures: parameters, FLOPs, cache and ratios; report: both as one Report.
"""
