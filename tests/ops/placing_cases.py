"""Cases and references of the ops that put vectors of images among those of a text."""

import torch

from archcli.ops import JoinPieces, PairPositions, PlaceFeatures, Spans, UnpadTiles
from ops.case import Case, E, M, N, ledger

TOKEN = 3
X, IDS = (2, 6, 4), (2, 6)
FEATURES = ((2, 1, 4), (2, 2, 4))
CASES = {
    "join-pieces": Case(JoinPieces("y", 3), ((6, 2, 4),), (2, 6, 4)),
    # 3 vectors of 2 sequences, 4 wide: 24 moved, by 12 ids
    "place-features": ledger(
        PlaceFeatures("y", TOKEN),
        (X, IDS, *FEATURES),
        X,
        [(M, 0, 24 + 12, 24)],
        [(M, 0, 0, 24), (M, 0, 8, 8), (M, 0, 16, 16)],
    ),
    "add-features": ledger(
        PlaceFeatures("y", TOKEN, adds=True),
        (X, IDS, *FEATURES),
        X,
        [(M, 0, 24 + 12, 24), (E, 24, 48, 24)],
        [(M, 0, 0, 0), (M, 0, 8, 8), (M, 0, 16, 16)],
    ),
    "spans": Case(Spans("y", TOKEN), (IDS,), (6,)),
    "spans-of-a-prompt": Case(Spans("y", TOKEN, prompt=True), (IDS,), (6,)),
    "pair-positions": Case(PairPositions("y", TOKEN, ((1, 1), (1, 2)), (0, 1, 2, 2)), (IDS,), (6, 4)),
    # an overview and 2 x 1 tiles of 2 x 2 vectors, of whose 4 x 2 grid rows 1 and 2 are left, with ends
    "unpad-tiles": ledger(
        UnpadTiles("y", (2, 1), (2, 2), ((1, 3), (0, 2))),
        ((6, 4, 5), (5,)),
        (2, 4 + 2 * 3, 5),
        [(M, 0, 100 - 20 + 5, 100)],
        [(M, 0, 80, 80), (N, 20, 20, 5)],
    ),
    # 4 x 2 to 2 x 1: 3 products and 3 sums of two axes each
    "resize-tiles": ledger(
        UnpadTiles("y", (2, 1), (2, 2), ((0, 4), (0, 2)), (2, 1)),
        ((6, 4, 5), (5,)),
        (2, 4 + 2 * 2, 5),
        [(E, 9 * 20, 20, 20), (M, 0, 80 - 20 + 5, 80)],
        [(E, 9 * 20, 20, 20), (M, 0, 60, 60), (N, 20, 20, 5)],
    ),
}


def prompt(shape, generator):
    """Ids with a vector of an image, a token between, and two vectors of another."""
    return torch.tensor([[1, TOKEN, 2, TOKEN, TOKEN, 5]] * shape[0])


ARGUMENTS = {
    ("PlaceFeatures", 1): prompt,
    ("Attend", "spans"): lambda shape, generator: torch.tensor([-1, 0, 0, 1]),
    **dict.fromkeys((("Spans", 0), ("PairPositions", 0)), prompt),
}


def place(op, weights, x, ids, *features):
    out, vectors = x.clone(), torch.cat(features, dim=1)
    for b in range(len(ids)):
        number = 0
        for t in range(ids.shape[1]):
            if ids[b, t] == op.token:
                out[b, t] = vectors[b, number] + (x[b, t] if op.adds else 0)
                number += 1
    return out


def positions(op, weights, ids):
    """A token of text one further than all before it, a vector at its image's start and place."""
    rows, largest, grids, t = [], -1, iter(op.grids), 0
    while t < ids.shape[1]:
        if ids[0, t] != op.token:
            rows.append([largest + 1] * 3)
            t += 1
        else:
            h, w = next(grids)
            start = largest + 1
            rows += [[start, start + i, start + j] for i in range(h) for j in range(w)]
            t += h * w
        largest = max(max(row) for row in rows)
    return torch.tensor([[row[axis] for axis in op.axes] for row in rows])


def unpad(op, weights, x, end):
    """Vector by vector, of tile and place."""
    (down, across), (h, w) = op.tiles, op.places
    (top, bottom), (left, right) = op.inner
    images = []
    for pieces in x.split(1 + down * across):
        grid = torch.empty(down * h, across * w, x.shape[2])
        for i in range(down * h):
            for j in range(across * w):
                grid[i, j] = pieces[1 + i // h * across + j // w, i % h * w + j % w]
        grid = grid[top:bottom, left:right]
        if op.resized is not None:
            # 4 x 2 to 2 x 1: means of 2 x 2
            grid = torch.stack([grid[2 * i : 2 * i + 2].mean(dim=(0, 1))[None] for i in range(2)])
        rows = [torch.cat((row, end[None])) for row in grid]
        images.append(torch.cat((pieces[0], *rows)))
    return torch.stack(images)


REFERENCES = {
    "JoinPieces": lambda op, weights, x: torch.stack([torch.cat((*part,)) for part in x.split(op.number)]),
    "PlaceFeatures": place,
    "PairPositions": positions,
    "Spans": lambda op, weights, ids: torch.tensor([0] * 6 if op.prompt else [-1, 0, -1, 1, 1, -1]),
    "UnpadTiles": unpad,
}
