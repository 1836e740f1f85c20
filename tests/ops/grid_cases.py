"""Cases and references of the ops on images and sounds."""

import math
from itertools import product

import torch

from archcli.ops import (
    ChannelsFirst,
    ChannelsLast,
    Conv2d,
    CutWindows,
    FlattenGrid,
    FlattenPlaces,
    GridBias,
    GridCoordinates,
    GridRotaryTable,
    JoinWindows,
    MeanTokens,
    MergeBlocks,
    Patchify,
    PoolBlocks,
    PrependTokens,
    ResizeTable,
    TrainedTokens,
)
from ops.case import C, Case, E, M, N, X, ledger, n

IMAGE = (2, 4, 6, 5)
PLACES = (2, 6, 4)
CASES = {
    # 6 x 5 by 3 x 2 in steps of 2, rows padded by 1: 3 x 2 places of 8 channels; each of 2 of 4 channels
    "conv2d": ledger(
        Conv2d("y", 8, (3, 2), (2, 2), (1, 0), groups=2),
        (IMAGE,),
        (2, 8, 3, 2),
        [(C, 2 * 96 * 2 * 3 * 2, 240 + 96, 96), (E, 96, 96 + 8, 96)],
        [(C, 2 * 2 * 96 * 2 * 3 * 2, 2 * 96 + 96 + 240, 240 + 96), (N, 96, 96, 8)],
        weights={"weight": (8, 2, 3, 2), "bias": (8,)},
    ),
    "flatten-grid": Case(FlattenGrid("y"), (IMAGE,), (2, 30, 4)),
    # 2 tokens of 2 sequences, 4 wide: 16 summed, 8 divided; each quotient handed to 3 tokens
    "mean-tokens": ledger(MeanTokens("y", 1), (X,), (2, 1, 4), [(N, 16 + 8, 16, 8)], [(E, 8, 8, n)]),
    # 3 x 2 patches by 2 x 2: one block is whole, the last row is left out
    "merge-blocks": ledger(
        MergeBlocks("y", (3, 2), (2, 2)), (PLACES,), (2, 1, 16), [(M, 0, 32, 32)], [(M, 0, 32, 32)]
    ),
    # 32 numbers summed and 8 divided; each quotient handed to its patches, of 48 numbers in all
    "pool-blocks": ledger(
        PoolBlocks("y", (3, 2), (2, 2)), (PLACES,), (2, 1, 4), [(N, 32 + 8, 32, 8)], [(E, 8, 8, 48)]
    ),
    # 2 x 2 patches of 3 x 2 pixels of 4 channels in each of 2 images
    "patchify": ledger(Patchify("y", (3, 2)), (IMAGE,), (2, 4, 24), [(M, 0, 192, 192)], [(M, 0, 192, 192)]),
    "prepend-token": ledger(
        PrependTokens("y"),
        (X,),
        (2, 4, 4),
        [(M, 0, n + 4, n + 8)],
        [(M, 0, n, n), (N, 8, 8, 4)],
        weights={"weight": (4,)},
    ),
    "prepend-tokens": ledger(
        PrependTokens("y", 2, 1),
        (X,),
        (2, 5, 4),
        [(M, 0, n + 8, n + 16)],
        [(M, 0, n, n), (N, 16, 16, 8)],
        weights={"weight": (2, 4)},
    ),
    "trained-tokens": ledger(
        TrainedTokens("y", 2), (X,), (2, 2, 4), [(M, 0, 0, 0)], [(N, 16, 16, 8)], weights={"weight": (2, 4)}
    ),
    # 7 tokens, one in front, of 3 x 2 places; differences of -2 to 2 and -1 to 1, and 3 of the first token
    "grid-bias": ledger(
        GridBias("y", 2, (3, 2), 1),
        ((7,),),
        (1, 2, 7, 7),
        [(M, 0, 98 + 49, 98)],
        [(N, 98, 98 + 49, 18 * 2)],
        weights={"weight": (5 * 3 + 3, 2)},
    ),
    "grid-coordinates": Case(GridCoordinates("y", (3, 2), 1), ((2, 7, 4),), (7, 2)),
    "grid-centers": Case(GridCoordinates("y", (3, 2), centred=True), ((2, 6, 4),), (6, 2)),
    # 6 places, 4 pairs: an angle, its cosine and its sine
    "grid-rotary": Case(
        GridRotaryTable("y", 8, 100.0, 2.0),
        ((6, 2),),
        ((6, 4), (6, 4)),
        {E: 3 * 24},
        {},
        (12, 48),
    ),
    "grid-rotary-between": Case(
        GridRotaryTable("y", 8, 100.0, 2.0, between=True),
        ((6, 2),),
        ((6, 4), (6, 4)),
        {E: 3 * 24},
        {},
        (12, 48),
    ),
    "resize-corners": ledger(
        ResizeTable("y", (3, 2), (5, 3), mode="bilinear", corners=True),
        ((6, 5),),
        (15, 5),
        *[[(E, 3 * 3 * 75, 75, 75)]] * 2,
    ),
    # 4 x 4 places, of which 4 x 3 are kept
    "resize-square": ledger(
        ResizeTable("y", (3, 2), (4, 3), mode="bilinear", square=True),
        ((6, 5),),
        (12, 5),
        *[[(E, 3 * 3 * 80, 80, 80)]] * 2,
    ),
    # 3 x 2 to 4 x 3 places 5 wide: of 4 taps along a row 4 times, then once more; 4 products and 3 sums each
    "resize-bicubic": ledger(
        ResizeTable("y", (3, 2), (4, 3), 1),
        ((7, 5),),
        (13, 5),
        *[[(E, 5 * 7 * 60, 60, 60)]] * 2,
    ),
    "resize-bilinear": ledger(
        ResizeTable("y", (3, 2), (4, 3), mode="bilinear"),
        ((6, 5),),
        (12, 5),
        *[[(E, 3 * 3 * 60, 60, 60)]] * 2,
    ),
    # 5 x 4 places, with a row and two columns of zeros 2 x 2 windows of 3 x 3 in each of 2 grids
    "cut-windows": ledger(
        CutWindows("y", 3),
        ((2, 5, 4, 3),),
        (8, 9, 3),
        [(M, 0, 120, 216)],
        [(M, 0, 216, 120)],
    ),
    "join-windows": ledger(
        JoinWindows("y", (5, 4), 3),
        ((8, 9, 3),),
        (2, 5, 4, 3),
        [(M, 0, 216, 120)],
        [(M, 0, 120, 216)],
    ),
    "channels-first": Case(ChannelsFirst("y"), (IMAGE,), (2, 5, 4, 6)),
    "channels-last": Case(ChannelsLast("y"), (IMAGE,), (2, 6, 5, 4)),
    "flatten-places": ledger(
        FlattenPlaces("y"), (IMAGE,), (2, 24, 5), [(M, 0, 240, 240)], [(M, 0, 240, 240)]
    ),
}


def conv(op, weights, x):
    """Place by place and channel by channel, over a frame of zeros."""
    (top, left), (down, right), (high, wide) = op.padding, op.stride, op.kernel
    _, channels, height, width = x.shape
    framed = torch.zeros(2, channels, height + 2 * top, width + 2 * left)
    framed[:, :, top : top + height, left : left + width] = x
    out = torch.zeros(op.shape(x.shape))
    inside = channels // op.groups
    for c, i, j in product(*map(range, out.shape[1:])):
        first = c // (op.out // op.groups) * inside
        seen = framed[:, first : first + inside, down * i : down * i + high, right * j : right * j + wide]
        out[:, c, i, j] = (seen * weights["weight"][c]).sum((1, 2, 3)) + weights["bias"][c]
    return out


def patchify(op, weights, x):
    rows = []
    for i, j in product(range(x.shape[2] // op.patch[0]), range(x.shape[3] // op.patch[1])):
        pixels = product(range(op.patch[0]), range(op.patch[1]))
        rows.append(torch.cat([x[:, :, 3 * i + a, 2 * j + b] for a, b in pixels], dim=1))
    return torch.stack(rows, dim=1)


def prepend(op, weights, x):
    own = weights["weight"].view(-1, 4)
    rows = [row.expand(2, 4) for row in own]
    tokens = list(x.unbind(1))
    return torch.stack([*tokens[: op.after], *rows, *tokens[op.after :]], dim=1)


def grid_bias(op, weights, positions):
    table, places = weights["weight"], [None, *product(range(3), range(2))]
    out = torch.zeros(1, 2, 7, 7)
    for i, j in product(range(7), range(7)):
        query, key = places[i], places[j]
        if query is None or key is None:
            row = 15 + (2 if i == j else 0 if query is None else 1)
        else:
            row = (query[0] - key[0] + 2) * 3 + query[1] - key[1] + 1
        out[0, :, i, j] = table[row]
    return out


def coordinates(op, weights, x):
    rows = [(0.0, 0.0)] * op.leading
    for i, j in product(range(3), range(2)):
        rows.append(((2 * i + 1) / 3 - 1, (2 * j + 1) / 2 - 1) if op.centred else (i, j))
    return torch.tensor(rows, dtype=torch.float32)


def rotary(op, weights, places):
    angles = [
        [
            2 * float(row[axis]) * 100 ** -((4 * i + 2 * axis * op.between) / 8)
            for axis, i in product((0, 1), (0, 1))
        ]
        for row in places
    ]
    if op.trained_first:
        angles[0] = weights["angles"].tolist()
    return tuple(torch.tensor([[f(angle) for angle in row] for row in angles]) for f in (math.cos, math.sin))


def cubic(distance):
    """Keys' kernel with a = -0.75, which torch takes."""
    d, a = abs(distance), -0.75
    if d <= 1:
        return (a + 2) * d**3 - (a + 3) * d**2 + 1
    return a * (d**3 - 5 * d**2 + 8 * d - 4) if d < 2 else 0.0


def linear(distance):
    return max(0.0, 1 - abs(distance))


def resized(op, weights, table):
    """Each place from those near where it lies in the first grid, the border repeated."""
    kernel, out = cubic if op.mode == "bicubic" else linear, [*table[: op.leading]]
    grid = table[op.leading :].view(*op.before, -1)
    after = [max(op.after)] * 2 if op.square else op.after
    for place in product(*map(range, op.after)):
        at = [(p + 0.5) * b / a - 0.5 for p, a, b in zip(place, after, op.before, strict=True)]
        if op.corners:
            at = [p * (b - 1) / (a - 1) for p, a, b in zip(place, after, op.before, strict=True)]
        if op.mode == "nearest":
            at = [p * b // a for p, a, b in zip(place, after, op.before, strict=True)]
        if op.mode == "bilinear":
            at = [max(0.0, z) for z in at]
        total = torch.zeros(table.shape[1])
        for i, j in product(*(range(math.floor(z) - 1, math.floor(z) + 3) for z in at)):
            y, x = (min(max(k, 0), b - 1) for k, b in zip((i, j), op.before, strict=True))
            total += kernel(at[0] - i) * kernel(at[1] - j) * grid[y, x]
        out.append(total)
    return torch.stack(out)


def places_of_windows(op, h, w):
    """((row, column), window, place in it) of each place of a grid."""
    across = -(-w // op.side)
    for i, j in product(range(h), range(w)):
        yield (i, j), i // op.side * across + j // op.side, i % op.side * op.side + j % op.side


def cut(op, weights, x):
    out = torch.zeros(2, 4, 9, 3)
    for (i, j), window, place in places_of_windows(op, 5, 4):
        out[:, window, place] = x[:, i, j]
    return out.flatten(0, 1)


def join(op, weights, x):
    out = torch.zeros(2, 5, 4, 3)
    for (i, j), window, place in places_of_windows(op, 5, 4):
        out[:, i, j] = x.view(2, 4, 9, 3)[:, window, place]
    return out


def merge(op, weights, x):
    framed = torch.zeros(2, 4, 6, 2)
    framed[:, :3, :5] = x
    around = [(0, 0), (1, 0), (0, 1), (1, 1)]
    rows = [
        [torch.cat([framed[:, 2 * i + a, 2 * j + b] for a, b in around], dim=-1) for j in range(3)]
        for i in range(2)
    ]
    return torch.stack([torch.stack(row, dim=1) for row in rows], dim=1)


def blocks(op, x):
    """The patches of each block, row by row: [(B, p q, D)]."""
    (h, w), (p, q) = op.places, op.block
    grid = x.view(x.shape[0], h, w, -1)
    if not getattr(op, "whole", True):
        # of 3 rows the fourth is zeros
        grid = torch.cat([grid, torch.zeros_like(grid[:, :1])], dim=1)
    return [
        torch.stack([grid[:, i * p + a, j * q + b] for a, b in product(range(p), range(q))], dim=1)
        for i, j in product(range(grid.shape[1] // p), range(grid.shape[2] // q))
    ]


REFERENCES = {
    "MergeBlocks": lambda op, weights, x: torch.stack([y.flatten(1) for y in blocks(op, x)], dim=1),
    "PoolBlocks": lambda op, weights, x: torch.stack([y.mean(dim=1) for y in blocks(op, x)], dim=1),
    "CutWindows": cut,
    "JoinWindows": join,
    "ChannelsFirst": lambda op, weights, x: torch.stack([x[..., c] for c in range(5)], dim=1),
    "ChannelsLast": lambda op, weights, x: torch.stack([x[:, c] for c in range(4)], dim=-1),
    "FlattenPlaces": lambda op, weights, x: torch.stack([y for row in x.unbind(1) for y in row.unbind(1)], 1),
    "Conv2d": conv,
    "FlattenGrid": lambda op, weights, x: torch.stack([y for row in x.unbind(2) for y in row.unbind(2)], 1),
    "MeanTokens": lambda op, weights, x: ((x[:, 1] + x[:, 2]) / 2)[:, None],
    "Patchify": patchify,
    "PrependTokens": prepend,
    "TrainedTokens": lambda op, weights, x: torch.stack([weights["weight"]] * 2),
    "GridBias": grid_bias,
    "GridCoordinates": coordinates,
    "GridRotaryTable": rotary,
    "ResizeTable": resized,
}
