"""Cases and references of the ops on places of a grid, on standardized kernels and on blocks of a video."""

import math
from itertools import product

import torch

from archcli.ops import (
    FoldPlaces,
    GridRotaryTable,
    GroupNormalize,
    MeanPlaces,
    OuterPlaces,
    PadPlaces,
    PoolPlaces,
    ResponseNormalize,
    StandardizedConv2d,
    Tubelets,
)
from ops.case import C, Case, E, M, N, ledger

GRID = (2, 4, 5, 6)
n = 2 * 4 * 5 * 6
CASES = {
    # 4 x 5 places with a column left, two rows above and one below: 7 x 6
    "pad-places": ledger(
        PadPlaces("y", (1, 0, 2, 1)), (GRID,), (2, 7, 6, 6), [(M, 0, n, 504)], [(M, 0, 504, n)]
    ),
    # 2 x 3 windows of 9 places in steps of 2; the places of the 72 largest are kept
    "pool-max": ledger(
        PoolPlaces("y", "max", 3, 2, 1),
        (GRID,),
        (2, 2, 3, 6),
        [(N, 72 * 9, n, 72)],
        [(N, 72 * 9, 72 + 72, n)],
    ),
    # 3 x 4 windows of 4 places: their sums, divided
    "pool-mean": ledger(
        PoolPlaces("y", "mean", 2, 1),
        (GRID,),
        (2, 3, 4, 6),
        [(N, 144 * 4 + 144, n, 144)],
        [(N, 144 * 4, 144, n)],
    ),
    # a number of each of 2 x 4 x 5 places, and of each of 2 x 6 channels
    "outer-places": ledger(
        OuterPlaces("y"),
        ((2, 4, 5, 1), (2, 1, 1, 6)),
        GRID,
        [(E, n, 40 + 12, n)],
        [(E, n + n - 40, n + 12, 40), (E, n + n - 12, n + 40, 12)],
    ),
    "mean-places": ledger(MeanPlaces("y"), (GRID,), (2, 1, 1, 6), [(N, n + 12, n, 12)], [(E, 12, 12, n)]),
    # as LayerNorm with its weights: 7 FLOPs each forward, 9 and 4 backward
    "group-norm": ledger(
        GroupNormalize("y", 0.1, 3),
        (GRID,),
        GRID,
        [(N, 7 * n, n + 12, n)],
        [(N, 9 * n, 2 * n + 12, n), (N, 4 * n, 2 * n, 12)],
        weights={"weight": (6,), "bias": (6,)},
    ),
    # square and sum; two products, two sums
    "response-norm": ledger(
        ResponseNormalize("y", 0.1),
        (GRID,),
        GRID,
        [(N, 6 * n, n + 12, n)],
        [(N, 9 * n, 2 * n + 12, n), (N, 4 * n, 2 * n, 12)],
        weights={"weight": (6,), "bias": (6,)},
    ),
    "fold-places": Case(FoldPlaces("y", (3, 2)), ((2, 6, 4),), (2, 3, 2, 4)),
    # the convolution of the case conv2d, whose 96 numbers of kernels are normalized before
    "standardized-conv2d": ledger(
        StandardizedConv2d("y", 8, (3, 2), (2, 2), (1, 0), groups=2, eps=0.1),
        ((2, 4, 6, 5),),
        (2, 8, 3, 2),
        [(N, 7 * 96, 96, 96), (C, 2 * 96 * 2 * 3 * 2, 240 + 96, 96), (E, 96, 96 + 8, 96)],
        [
            (N, 9 * 96, 2 * 96, 96),
            (C, 2 * 2 * 96 * 2 * 3 * 2, 2 * 96 + 96 + 240, 240 + 96),
            (N, 96, 96, 8),
        ],
        weights={"weight": (8, 2, 3, 2), "bias": (8,)},
    ),
    # 5 frames of 4 x 6 pixels of 3 channels by 2 x 2 x 3: 2 x 2 x 2 blocks, the last frame is left out
    "tubelets": ledger(
        Tubelets("y", (2, 2, 3)), ((2, 5, 3, 4, 6),), (2, 8, 36), [(M, 0, 576, 576)], [(M, 0, 576, 576)]
    ),
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


def padded(op, weights, x):
    out = torch.zeros(op.shape(x.shape))
    left, _, top, _ = op.around
    for i, j in product(range(x.shape[1]), range(x.shape[2])):
        out[:, top + i, left + j] = x[:, i, j]
    return out


def pooled(op, weights, x):
    """Of the places of each window those that lie within the grid."""
    out = torch.zeros(op.shape(x.shape))
    for i, j in product(*map(range, out.shape[1:3])):
        first = [k * op.stride - op.padding for k in (i, j)]
        near = product(
            *(range(max(at, 0), min(at + op.kernel, s)) for at, s in zip(first, x.shape[1:3], strict=True))
        )
        seen = torch.stack([x[:, a, b] for a, b in near])
        out[:, i, j] = seen.amax(0) if op.reduction == "max" else seen.sum(0) / len(seen)
    return out


def group_norm(op, weights, x):
    out, wide = torch.zeros_like(x), x.shape[3] // op.groups
    for b, g in product(range(x.shape[0]), range(op.groups)):
        part = slice(g * wide, (g + 1) * wide)
        numbers = x[b, :, :, part]
        mean = float(numbers.sum()) / numbers.numel()
        spread = math.sqrt(float(((numbers - mean) ** 2).sum()) / numbers.numel() + op.eps)
        out[b, :, :, part] = (numbers - mean) / spread * weights["weight"][part] + weights["bias"][part]
    return out


def response(op, weights, x):
    out = torch.zeros_like(x)
    for b in range(x.shape[0]):
        lengths = [math.sqrt(float((x[b, :, :, c] ** 2).sum())) for c in range(x.shape[3])]
        mean = sum(lengths) / len(lengths)
        for c, length in enumerate(lengths):
            share = length / (mean + op.eps)
            out[b, :, :, c] = x[b, :, :, c] * (weights["weight"][c] * share + 1) + weights["bias"][c]
    return out


def standardized(op, weights, x):
    from ops.grid_cases import conv

    kernels = []
    for kernel in weights["weight"]:
        mean = float(kernel.sum()) / kernel.numel()
        spread = math.sqrt(float(((kernel - mean) ** 2).sum()) / kernel.numel() + op.eps)
        kernels.append((kernel - mean) / spread)
    return conv(op, {**weights, "weight": torch.stack(kernels)}, x)


def tubelets(op, weights, x):
    t, p, q = op.block
    blocks = product(
        *(range(s // side) for s, side in zip((x.shape[1], *x.shape[3:]), op.block, strict=True))
    )
    rows = [
        x[:, k * t : k * t + t, :, i * p : i * p + p, j * q : j * q + q].transpose(1, 2).flatten(1)
        for k, i, j in blocks
    ]
    return torch.stack(rows, dim=1)


REFERENCES = {
    "PadPlaces": padded,
    "PoolPlaces": pooled,
    "OuterPlaces": lambda op, weights, a, b: torch.stack([a[..., 0] * b[..., c] for c in range(6)], dim=-1),
    "MeanPlaces": lambda op, weights, x: (sum(x[:, i, j] for i, j in product(range(4), range(5))) / 20)[
        :, None, None
    ],
    "GroupNormalize": group_norm,
    "ResponseNormalize": response,
    "FoldPlaces": lambda op, weights, x: torch.stack(
        [torch.stack([x[:, 2 * i + j] for j in range(2)], dim=1) for i in range(3)], dim=1
    ),
    "StandardizedConv2d": standardized,
    "Tubelets": tubelets,
}
