"""Kernels: what torch launches in a pass, found by running the operations' own code without torch.

No operation states its kernels beside the code that runs. Its `run` (step by step) or `run_fused` (attention
in one kernel) is called with a stand-in for torch and tensors without values. Each function of torch there
says what a GPU or a CPU launches for it: names, FLOPs, bytes and number types, forward and backward. So the
kernels of an operation, by form and backend, are one more reading of its code, and what it calls decides what
runs as one. The tests hold them against what torch dispatches.
"""
