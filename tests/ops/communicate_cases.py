"""Cases and references of what ranks exchange: 3 ranks, a rank's tensors [2, 3, 4] or [6, 6]."""

import torch

from archcli.ops import (
    AllGather,
    AllReduce,
    AllToAll,
    BesideOthers,
    OwnExperts,
    OwnPart,
    ReduceScatter,
    SumGradient,
)
from ops.case import M, X, ledger, n

RANKS = 3

CASES = {
    # a sum of all ranks' numbers is as large as one rank's; its gradient comes as it is
    "all-reduce": ledger(AllReduce("y", RANKS), (X,), X, [(M, 0, n, n)], []),
    "sum-gradient": ledger(SumGradient("y", RANKS), (X,), X, [(M, 0, 0, 0)], [(M, 0, n, n)]),
    "all-gather": ledger(AllGather("y", RANKS), (X,), (2, 3, 12), [(M, 0, n, 3 * n)], [(M, 0, 3 * n, n)]),
    # where all ranks have the same gradient, each takes its own part of it
    "all-gather-alike": ledger(
        AllGather("y", RANKS, 1, sums=False), (X,), (2, 9, 4), [(M, 0, n, 3 * n)], [(M, 0, n, n)]
    ),
    "reduce-scatter": ledger(
        ReduceScatter("y", RANKS, 1), (X,), (2, 1, 4), [(M, 0, n, n // 3)], [(M, 0, n // 3, n)]
    ),
    "own-part": ledger(OwnPart("y", RANKS, 1), (X,), (2, 1, 4), [(M, 0, 0, 0)], [(M, 0, n // 3, n)]),
    "all-to-all": ledger(AllToAll("y", RANKS), ((6, 6),), (6, 6), [(M, 0, 36, 36)], [(M, 0, 36, 36)]),
    # two ranks with the same six tokens send three each
    "all-to-all-shared": ledger(
        AllToAll("y", RANKS, 2), ((6, 6),), (3, 6), [(M, 0, 18, 18)], [(M, 0, 18, 18)]
    ),
    # all ranks have the six tokens: each reads those of its experts, and writes zeros for the others
    "own-experts": ledger(OwnExperts("y", RANKS), ((6, 6),), (2, 6), [(M, 0, 0, 0)], [(M, 0, 12, 36)]),
    "beside-others": ledger(
        BesideOthers("y", RANKS), ((6, 6),), (18, 6), [(M, 0, 36, 108)], [(M, 0, 36, 36)]
    ),
}


def rows(op, weights, x):
    """The first of the parts into which axis 1 falls."""
    return torch.stack([x[:, i] for i in range(x.shape[1] // op.ranks)], dim=1)


REFERENCES = {
    "AllReduce": lambda op, weights, x: x,
    "SumGradient": lambda op, weights, x: x,
    "AllGather": lambda op, weights, x: x.repeat(*(3 if i == op.axis % 3 else 1 for i in range(3))),
    "ReduceScatter": rows,
    "OwnPart": rows,
    "AllToAll": lambda op, weights, x: x[: len(x) // op.shared_by],
    "OwnExperts": lambda op, weights, x: x[: len(x) // op.ranks],
    "BesideOthers": lambda op, weights, x: torch.nn.functional.pad(x, (0, 0, 0, (op.ranks - 1) * len(x))),
}
PASSED_ON = {"AllReduce": {0}}
