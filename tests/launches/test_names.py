"""The functions and methods that the stand-in knows are torch's, under torch's names."""

import torch

from archcli.launches.tensor import FUNCTIONS, METHODS

OUR_METHODS = {"getitem", "index", "real_part", "rsub"}
"""Methods that stand behind an operator of Python or a property."""


def test_functions_are_known_by_torchs_names():
    """Each is a function of torch or of a namespace that the stand-in has, or a method of its tensors."""
    homes = (torch, torch.nn.functional, torch.linalg, torch.fft, torch.special)
    assert [name for name in FUNCTIONS if not any(hasattr(home, name) for home in homes)] == []
    assert [name for name in METHODS if name not in OUR_METHODS and not hasattr(torch.Tensor, name)] == []
