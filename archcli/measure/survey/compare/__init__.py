"""Compare: differences of architectures in settings and in cost.

differences: settings of the YAML that are not the same; figures: parameters, FLOPs, cache and ratios; report:
both as one Report.
"""
