"""The functions and methods that the stand-in knows are torch's, under torch's names."""

import torch
from torch.nn.attention import flex_attention

from archcli.wings.serving.launches.tensor import FUNCTIONS, ShapeTensor

OUR_METHODS = {"__getattr__", "getitem", "index", "real_part", "rsub"}
"""Methods that stand behind an operator of Python, a property or what is not known."""


OF_ENGINES = {"served_attention", "side_by_side"}
"""What an engine runs in place of functions of torch."""


def test_functions_are_known_by_torchs_names():
    """Each is a function of torch or of a namespace that the stand-in has, or a method of its tensors."""
    homes = (torch, torch.nn.functional, torch.linalg, torch.fft, torch.special, flex_attention)
    assert [
        name for name in FUNCTIONS.keys() - OF_ENGINES if not any(hasattr(home, name) for home in homes)
    ] == []
    methods = {name for name, value in vars(ShapeTensor).items() if callable(value)}
    assert [name for name in methods - OUR_METHODS if not hasattr(torch.Tensor, name)] == []
