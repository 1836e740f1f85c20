"""Cases and references of the ops on places of a grid that lie alike in its patches."""

from itertools import product

import torch

from archcli.ops import CutGroups, JoinGroups, SoftmaxSum
from ops.case import E, M, N, ledger

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


REFERENCES = {"CutGroups": cut, "JoinGroups": joined, "SoftmaxSum": summed}
