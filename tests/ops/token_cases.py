"""Cases and references of the ops that regroup tokens and add tables of tiles, rows and columns."""

import math
from itertools import product

import torch

from archcli.ops import (
    AddGridTables,
    AddTilePlaces,
    AddTileTable,
    AxisBias,
    ChannelTokens,
    ConcatTokens,
    DropTokens,
    JoinChannels,
    JoinNeighbours,
    KeepToken,
    MergeBlocks,
    PadTokens,
    PairPadding,
    Regroup,
    ResizeTable,
    TakeTokens,
    TanhScale,
    TrainedTokens,
)
from ops.case import C, Case, E, M, N, X, ledger, n

TILES = (4, 3, 2)
GRID = (2, 2, 3, 4)
CASES = {
    "keep-token": Case(KeepToken("y", 1), (X,), (2, 1, 4)),
    "drop-tokens": Case(DropTokens("y", 1), (X,), (2, 2, 4)),
    "regroup": Case(Regroup("y", 2, 3), (X,), (4, 2, 3)),
    "take-tokens": Case(TakeTokens("y", 2), (X,), (2, 2, 4)),
    "pad-tokens": ledger(PadTokens("y", 2), (X,), (2, 5, 4), [(M, 0, n, 40)], [(M, 0, n, n)]),
    "concat-tokens": ledger(
        ConcatTokens("y"), (X, (2, 5, 4)), (2, 8, 4), [(M, 0, 64, 64)], [(M, 0, n, n), (M, 0, 40, 40)]
    ),
    # a token's 4 numbers between those of its neighbours, the next one's first
    "join-neighbours": ledger(
        JoinNeighbours("y", 1), (X,), (2, 3, 12), [(M, 0, n, 3 * n)], [(E, 2 * n, 3 * n, n)]
    ),
    # 6 places are the width of 2 channels in each of 2 groups
    "channel-tokens": Case(ChannelTokens("y", 2), (GRID,), (2, 2, 2, 6)),
    "join-channels": ledger(
        JoinChannels("y", (2, 3)), ((2, 2, 2, 6),), GRID, [(M, 0, 48, 48)], [(M, 0, 48, 48)]
    ),
    "tanh-scale": ledger(
        TanhScale("y"),
        (X,),
        X,
        [(E, n, n + 1, n)],
        [(E, n, n + 1, n), (N, 2 * n, 2 * n, 1)],
        weights={"gate": (1,)},
    ),
    # 2 images of 2 tiles, 3 tokens each; the last of 3 rows is 2 vectors of 2, times the gate
    "tile-table": ledger(
        AddTileTable("y", 2, 3),
        (TILES,),
        TILES,
        [(E, 24 + 4, 24 + 4 + 1, 24)],
        [(E, 0, 24, 24), (N, 24, 24, 4), (N, 2 * 4, 2 * 4, 1)],
        weights={"weight": (3, 4), "gate": (1,)},
    ),
    # 3 x 2 numbers of any tile and 2 x 3 x 2 of both, each times its share
    "tile-places": ledger(
        AddTilePlaces("y", 2, 3),
        (TILES,),
        TILES,
        [(E, 2 * 24 + 18, 24 + 18 + 1, 24)],
        [(E, 0, 24, 24), (N, 24, 24, 6), (N, 24, 24, 12), (N, 2 * 18, 2 * 18, 1)],
        weights={"weight": (3, 2), "tiles": (3, 12), "gate": (1,)},
    ),
    # 6 vectors of 2 tiles, the third of each padding: a product of a column with a row
    "pair-padding": Case(
        PairPadding("y", 2, 3),
        ((6,),),
        (1, 1, 6, 6),
        {C: 2 * 36, E: 36},
        {},
        (36, 72),
        operands=0,
    ),
    # 6 queries of 2 heads, 3 wide, with a vector of each of 2 rows and of 3 columns
    "axis-bias": ledger(
        AxisBias("y", (2, 3)),
        ((2, 6, 2, 3),),
        (2, 2, 6, 6),
        [(C, 2 * 24 * 2 * 3, 72 + 9, 48), (C, 2 * 24 * 3 * 3, 72 + 15, 72), (E, 144, 120, 144)],
        [
            (C, 2 * 24 * 2 * 3, 9 + 48, 72),
            (C, 2 * 24 * 2 * 3, 72 + 48, 9),
            (C, 2 * 24 * 3 * 3, 15 + 72, 72),
            (C, 2 * 24 * 3 * 3, 72 + 72, 15),
            (N, 2 * 144, 2 * 144, 120),
        ],
        weights={"rows": (3, 3), "columns": (5, 3)},
    ),
    # rows of 2 numbers and columns of 2 in tables of 5, for 2 x 3 places
    "grid-tables": ledger(
        AddGridTables("y", (2, 3), 5, frame=True),
        ((2, 6, 4),),
        (2, 6, 4),
        [(E, 2 * 48, 48 + 24, 48)],
        [(E, 0, 48, 48), (N, 24, 24, 2 * 2), (N, 24, 24, 3 * 2)],
        weights={"rows": (5, 2), "columns": (5, 2)},
    ),
    # 4 rows of 3, which are the first, the first, the second and the third
    "resize-nearest": ledger(
        ResizeTable("y", (3, 2), (4, 3), mode="nearest"),
        ((6, 5),),
        (12, 5),
        [(E, 0, 60, 60)],
        [(E, 0, 60, 60)],
    ),
    # sinusoids that are no weights
    "grid-waves": ledger(
        AddGridTables("y", (2, 3), None),
        ((2, 6, 4),),
        (2, 6, 4),
        [(E, 48, 48 + 24, 48)],
        [(E, 0, 48, 48)],
    ),
    # 3 x 2 patches by 2 x 2: two blocks, the second with zeros
    "merge-blocks-filled": ledger(
        MergeBlocks("y", (3, 2), (2, 2), whole=False),
        ((2, 6, 4),),
        (2, 2, 16),
        [(M, 0, 48, 64)],
        [(M, 0, 64, 48)],
    ),
    "trained-tokens-wide": ledger(
        TrainedTokens("y", 2, 5),
        (X,),
        (2, 2, 5),
        [(M, 0, 0, 0)],
        [(N, 20, 20, 10)],
        weights={"weight": (2, 5)},
    ),
}


def channels(x):
    """A channel of a group as a token: its numbers at all places."""
    out = torch.zeros(2, 2, 2, 6)
    for c, g, i, j in product(range(2), range(2), range(2), range(3)):
        out[:, c, g, 3 * i + j] = x[:, i, j, 2 * g + c]
    return out


def joined(x):
    out = torch.zeros(GRID)
    for c, g, i, j in product(range(2), range(2), range(2), range(3)):
        out[:, i, j, 2 * g + c] = x[:, c, g, 3 * i + j]
    return out


def neighbours(op, weights, x):
    """The next token, the token, the one before; zeros beyond both ends."""
    none = torch.zeros(2, 4)
    of_tokens = [none, *x.unbind(1), none]
    rows = [torch.cat([of_tokens[i + 1], of_tokens[i], of_tokens[i - 1]], -1) for i in range(1, 4)]
    return torch.stack(rows, dim=1)


def tile_table(op, weights, x):
    share, row = math.tanh(float(weights["gate"])), weights["weight"][2]
    return torch.stack([x[b] + share * row[2 * (b % 2) : 2 * (b % 2) + 2] for b in range(4)])


def tile_places(op, weights, x):
    share, row = math.tanh(float(weights["gate"])), weights["tiles"][2].view(2, 3, 2)
    return torch.stack([x[b] + (1 - share) * weights["weight"] + share * row[b % 2] for b in range(4)])


def pair_padding(op, weights, positions):
    out = torch.zeros(1, 1, 6, 6)
    for i, j in product((2, 5), (2, 5)):
        out[:, :, i, j] = torch.finfo(torch.float32).min
    return out


def axis_bias(op, weights, q):
    out = torch.zeros(2, 2, 6, 6)
    for i, j in product(range(6), range(6)):
        of_row, of_column = weights["rows"][i // 3 - j // 3 + 1], weights["columns"][i % 3 - j % 3 + 2]
        out[:, :, i, j] = (q[:, i] * (of_row + of_column)).sum(-1)
    return out


WAVES = (torch.sin, torch.cos, torch.sin, torch.cos)


def grid_tables(op, weights, x):
    out = x.clone()
    if op.entries is None:  # one sine and one cosine of a column, then of a row
        places = torch.tensor([[j, j, i, i] for i, j in product(range(2), range(3))], dtype=x.dtype)
        return out + torch.cat([f(places[:, [k]]) for k, f in enumerate(WAVES)], dim=1)
    for i, j in product(range(2), range(3)):
        out[:, 3 * i + j] += torch.cat([weights["columns"][j], weights["rows"][i]])
    return out + torch.tensor([0.0, 1.0, 0.0, 1.0])


REFERENCES = {
    "KeepToken": lambda op, weights, x: torch.stack([x[:, 1]], dim=1),
    "DropTokens": lambda op, weights, x: torch.stack([x[:, i] for i in range(op.number, x.shape[1])], dim=1),
    "Regroup": lambda op, weights, x: torch.tensor(x.flatten().tolist()).view(4, 2, 3),
    "TakeTokens": lambda op, weights, x: torch.stack([x[:, 0], x[:, 1]], dim=1),
    "PadTokens": lambda op, weights, x: torch.stack([*x.unbind(1), *[torch.zeros(2, 4)] * 2], dim=1),
    "ConcatTokens": lambda op, weights, a, b: torch.stack([*a.unbind(1), *b.unbind(1)], dim=1),
    "JoinNeighbours": neighbours,
    "ChannelTokens": lambda op, weights, x: channels(x),
    "JoinChannels": lambda op, weights, x: joined(x),
    "TanhScale": lambda op, weights, x: math.tanh(float(weights["gate"])) * x,
    "AddTileTable": tile_table,
    "AddTilePlaces": tile_places,
    "PairPadding": pair_padding,
    "AddGridTables": grid_tables,
    "AxisBias": axis_bias,
}
