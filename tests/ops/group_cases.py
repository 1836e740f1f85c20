"""Cases and references of ops on like places of patches, on distances of places, and on cosines."""

import math
from itertools import product

import torch

from archcli.ops import (
    AbsoluteBias,
    CutGroups,
    DifferenceBias,
    EveryPlace,
    HeadTemperature,
    JoinGroups,
    LogDifferences,
    SoftmaxSum,
    SumTokens,
)
from ops.case import Case, E, M, N, ledger

GRID, GROUPS = (2, 4, 6, 3), (2 * 4, 2 * 3, 3)
n = 2 * 4 * 6 * 3
CASES = {
    # 4 x 6 places in patches of 2 x 2: 2 x 3 of them, with 4 places each
    "cut-groups": ledger(CutGroups("y", 2), (GRID,), GROUPS, [(M, 0, n, n)], [(M, 0, n, n)]),
    "join-groups": ledger(JoinGroups("y", (4, 6), 2), (GROUPS,), GRID, [(M, 0, n, n)], [(M, 0, n, n)]),
    # 8 groups of 6 scores and 6 vectors of 3 channels: 4 FLOPs a score, products and their sums
    "softmax-sum": ledger(
        SoftmaxSum("y"),
        ((8, 6, 1), GROUPS),
        (8, 1, 3),
        [(N, 4 * 48, 48, 48), (E, n + n - 24, n + 48, 24)],
        [(N, 5 * 48, 2 * 48, 48), (E, n, 24 + 48, n), (E, 2 * n - 48, 24 + n, 48)],
    ),
    "sum-tokens": ledger(SumTokens("y"), (GROUPS,), (8, 1, 3), [(N, n, n, 24)], [(M, 0, 24, n)]),
    # every second of 4 rows and 6 columns
    "every-place": Case(EveryPlace("y", 2), (GRID,), (2, 2, 3, 3)),
    # 3 heads of 4 numbers; each temperature is bounded, and its exponential taken
    "head-temperature": ledger(
        HeadTemperature("y", 0.5),
        ((2, 5, 3, 4),),
        (2, 5, 3, 4),
        [(E, 120 + 2 * 3, 120 + 3, 120)],
        [(E, 120, 120 + 3, 120), (N, 2 * 120, 2 * 120, 3)],
        weights={"scale": (3,)},
    ),
    "log-differences": Case(LogDifferences("y", 2, 3), ((1, 4, 5),), (9, 2)),
    # 2 heads, 4 places of a window of 2 x 2: a table of 3 x 3 differences, and its sigmoid for each pair
    "difference-bias": ledger(
        DifferenceBias("y", 2, 16.0),
        ((9, 2),),
        (1, 2, 4, 4),
        [(M, 0, 32, 32), (E, 5 * 32, 32, 32)],
        [(N, 32, 32, 18), (E, 3 * 32, 2 * 32, 32)],
    ),
    # 2 x 3 queries on a grid of 3 x 5 places, 2 heads: a number of each of 15 distances
    "absolute-bias": ledger(
        AbsoluteBias("y", 2, (3, 5), 2),
        ((6,),),
        (1, 2, 6, 15),
        [(M, 0, 180 + 90, 180)],
        [(N, 180, 180 + 90, 30)],
        weights={"weight": (2, 15)},
    ),
}


def cut(op, weights, x):
    groups = [x[b, i::2, j::2].reshape(6, 3) for b, i, j in product(range(2), repeat=3)]
    return torch.stack(groups)


def joined(op, weights, x):
    y = torch.zeros(GRID)
    for g, (b, i, j) in enumerate(product(range(2), repeat=3)):
        y[b, i::2, j::2] = x[g].reshape(2, 3, 3)
    return y


def summed(op, weights, q, k):
    shares = q[..., 0].exp() / q[..., 0].exp().sum(1, keepdim=True)
    return torch.stack([sum(shares[g, i] * k[g, i] for i in range(6))[None] for g in range(8)])


def biased(op, weights, positions):
    bias = torch.zeros(1, 2, 6, 15)
    for i, j in product(range(6), range(15)):
        rows, columns = abs(2 * (i // 3) - j // 5), abs(2 * (i % 3) - j % 5)
        bias[0, :, i, j] = weights["weight"][:, 5 * rows + columns]
    return bias


def logarithms(op, weights, anchor):
    def log(n):
        return math.copysign(math.log(abs(8 * n / 2) + 1, 8), n) if n else 0.0

    return torch.tensor([[log(i), log(j)] for i, j in product((-1, 0, 1), repeat=2)])


def differences(op, weights, table):
    bias = torch.zeros(1, 2, 4, 4)
    for i, j in product(range(4), repeat=2):
        row, column = i // 2 - j // 2 + 1, i % 2 - j % 2 + 1
        bias[0, :, i, j] = 16 / (1 + (-table[3 * row + column]).exp())
    return bias


REFERENCES = {
    "SumTokens": lambda op, weights, x: sum(x[:, t] for t in range(6))[:, None],
    "HeadTemperature": lambda op, weights, x: torch.stack(
        [x[:, :, h] * math.exp(min(float(weights["scale"][h]), 0.5)) for h in range(3)], dim=2
    ),
    "LogDifferences": logarithms,
    "DifferenceBias": differences,
    "AbsoluteBias": biased,
    "EveryPlace": lambda op, weights, x: torch.stack([x[:, (0, 2), j] for j in (0, 2, 4)], dim=2),
    "CutGroups": cut,
    "JoinGroups": joined,
    "SoftmaxSum": summed,
}
