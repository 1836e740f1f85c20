"""Compare: architectures side by side, in what they state and in what they cost.

differences: settings of the YAML that are not the same; figures: parameters, FLOPs, cache and ratios; report:
both as one Report.
"""
