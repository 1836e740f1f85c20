"""Cases and references of the ops on places of a grid, on standardized kernels and on blocks of a video."""

import math

import torch

from archcli.ops import GridRotaryTable
from ops.case import Case, E

CASES = {
    # as without trained angles; a gradient through a cosine and a sine of each of the 4
    "grid-rotary-trained": Case(
        GridRotaryTable("y", 8, 100.0, 2.0, trained_first=True),
        ((6, 2),),
        ((6, 4), (6, 4)),
        {E: 3 * 24},
        {E: 4 * 4},
        (12, 48),
        4 * 4 + 4,
        weights={"angles": (4,)},
    ),
}


def standardized(op, weights, x):
    from ops.grid_cases import conv

    kernels = []
    for kernel in weights["weight"]:
        mean = float(kernel.sum()) / kernel.numel()
        spread = math.sqrt(float(((kernel - mean) ** 2).sum()) / kernel.numel() + op.eps)
        kernels.append((kernel - mean) / spread)
    return conv(op, {**weights, "weight": torch.stack(kernels)}, x)


REFERENCES = {}
