"""Cases and references of several residual streams, and of what else Gemma 3n and Gemma 4 bring.

In the manner of cases.py and references.py.
"""

import math
from statistics import NormalDist

import torch

from archcli.ops import (
    AddToLater,
    GaussianTopK,
    MatchMagnitude,
    MeanStreams,
    ScaleChosen,
    SpreadStreams,
    StackStreams,
    StoredScale,
    TakeStream,
    WithinTable,
)
from ops.case import Case, E, M, N, X, n

S = (2, 3, 5, 4)  # 5 streams of X

CASES = {
    "stack-streams": Case(
        StackStreams("y"), (X, X, X), (2, 3, 3, 4), {M: 0}, {M: 0}, (3 * n, 3 * n), 3 * 2 * n
    ),
    "take-stream": Case(TakeStream("y", 3), (S,), X),
    # two means of squares, a product and a division; backward a product of dy, y and x each, summed,
    # and for y that sum times y, subtracted, and what it is scaled by
    "match-magnitude": Case(
        MatchMagnitude("y", 1e-5), (X, X), X, {N: (2 + 2 + 2) * n}, {N: (6 + 3) * n}, (2 * n, n), 8 * n
    ),
    # 5 shares of each vector; backward 5 products and a sum of them for y, 4 of each stream for its share
    "spread-streams": Case(
        SpreadStreams("y"),
        (S, X, (2, 3, 5)),
        S,
        {E: 2 * 5 * n},
        {E: (2 * 5 * n - n) + (2 * 5 * n - 30)},
        (5 * n + n + 30, 5 * n),
        (5 * n + 30 + n) + (5 * n + n + 30),
    ),
    # four streams of five; backward the sum of four
    "add-to-later": Case(AddToLater("y"), (S, X), S, {E: 4 * n}, {E: 3 * n}, (5 * n + n, 5 * n), 4 * n + n),
    "mean-streams": Case(MeanStreams("y"), (S,), X, {E: 4 * n + n}, {E: n}, (5 * n, n), n + 5 * n),
    "gaussian-top-k": Case(GaussianTopK("y", 0.6), (X,), X, {N: 5 * n}, {N: 4 * n}, (n, n), 3 * n),
    "stored-scale": Case(StoredScale("y"), (X,), X, {E: n}, {E: n}, (n, n), 2 * n, buffers={"scale": (1,)}),
    # 12 weights of 7 experts; the gradient of each expert's number is a sum over those it was chosen for
    "scale-chosen": Case(
        ScaleChosen("y", 7),
        ((2, 3, 2), (2, 3, 2)),
        (2, 3, 2),
        {E: 12},
        {E: 12, N: 2 * 12},
        (12 + 12 + 7, 12),
        (12 + 12 + 7 + 12) + (3 * 12 + 7),
        {"scale": (7,)},
    ),
    "within-table": Case(WithinTable("y", 3), ((2, 3),), (2, 3)),
}


def match(op, weights, y, x):
    out = y.clone()
    for place in [(b, t) for b in range(2) for t in range(3)]:
        target, own = (sum(float(value) ** 2 for value in z[place]) / 4 for z in (x, y))
        out[place] = y[place] * math.sqrt(target) / math.sqrt(max(own, op.eps))
    return out


def spread(op, weights, x, y, c):
    return torch.stack([x[:, :, i] + c[:, :, i : i + 1] * y for i in range(x.shape[2])], dim=2)


def top(op, weights, x):
    out = x.clone()
    for place in [(b, t) for b in range(2) for t in range(3)]:
        values = [float(value) for value in x[place]]
        mean = sum(values) / 4
        spread = math.sqrt(sum((value - mean) ** 2 for value in values) / 4)
        cut = mean + spread * NormalDist().inv_cdf(op.share)
        out[place] = torch.tensor([max(value - cut, 0.0) for value in values])
    return out


REFERENCES = {
    "StackStreams": lambda op, weights, *xs: torch.cat([x[:, :, None] for x in xs], dim=2),
    "TakeStream": lambda op, weights, x: x[:, :, op.index],
    "MatchMagnitude": match,
    "SpreadStreams": spread,
    "AddToLater": lambda op, weights, x, y: torch.stack(
        [x[:, :, i] + (y if i else 0) for i in range(x.shape[2])], dim=2
    ),
    "MeanStreams": lambda op, weights, x: sum(x[:, :, i] for i in range(x.shape[2])) / x.shape[2],
    "GaussianTopK": top,
    "StoredScale": lambda op, weights, x: float(weights["scale"][0]) * x,
    "ScaleChosen": lambda op, weights, x, index: (
        x
        * torch.tensor(
            [[[float(weights["scale"][e]) for e in row] for row in rows] for rows in index.tolist()]
        )
    ),
    "WithinTable": lambda op, weights, ids: torch.tensor([[i if i < 3 else 0 for i in row] for row in ids]),
}
PASSED_ON = {"SpreadStreams": {0}, "AddToLater": {0}}
"""Inputs whose gradient is the one that comes in."""
