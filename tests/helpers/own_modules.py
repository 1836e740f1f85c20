"""A function as a module of one's own, and its FLOPs."""

from torch import nn

import archcli


class Run(nn.Module):
    """A module that runs one function on its inputs."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *xs):
        return self.function(*xs)


def flops(module, *inputs, **options):
    """The totals of the FLOPs of a module on inputs."""
    return archcli.count_flops(module, inputs, **options).totals
