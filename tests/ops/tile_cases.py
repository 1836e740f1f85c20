"""Cases and references of the ops that join tiles and make a grid of tokens."""

from itertools import product

import torch

from archcli.ops import JoinTiles, UnflattenGrid
from ops.case import Case, M, N, X, ledger

CASES = {
    "unflatten-grid": Case(UnflattenGrid("y", (3, 1)), (X,), (2, 4, 3, 1)),
    # an overview and two tiles of 2 x 2 side by side, of which three columns show the image, 4 wide:
    # 2 x 3 and 2 x 2 tokens stay, each of 2 + 2 rows has an end, and one separator stands between
    "join-tiles": ledger(
        JoinTiles("y", (1, 2), (2, 2), (2, 3)),
        ((3, 4, 4),),
        (1, 2 * (3 + 1) + 1 + 2 * (2 + 1), 4),
        [(M, 0, (6 + 4) * 4 + 8, 15 * 4)],
        [(M, 0, (6 + 4) * 4, 3 * 4 * 4), (N, 4 * 4, 4 * 4, 4), (N, 4, 4, 4)],
        weights={"row_end": (4,), "separator": (4,)},
    ),
}


def join(op, weights, x):
    """Row by row over both tiles, then the overview."""
    tiles = [[x[1 + j // 2, 2 * i + j % 2] for j in range(3)] for i in range(2)]
    overview = [[x[0, 2 * i + j] for j in range(2)] for i in range(2)]
    first, last = (
        [token for row in part for token in (*row, weights["row_end"])] for part in (tiles, overview)
    )
    tokens = [*first, weights["separator"], *last]
    return torch.stack(tokens)[None]


REFERENCES = {
    "UnflattenGrid": lambda op, weights, x: torch.stack(
        [x[:, i + j] for i, j in product(range(3), range(1))], dim=2
    ).unflatten(2, (3, 1)),
    "JoinTiles": join,
}
