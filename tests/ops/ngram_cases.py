"""Cases and references of hashed n-grams, and of an index whose keys are means of pools."""

import math

import torch

from archcli.ops import (
    AverageBlocks,
    ClosedBlocks,
    DilatedConv1d,
    HashNGrams,
    IndexEvenTopK,
    ShareOut,
    SimilarityGates,
)
from ops.case import C, Case, E, M, R, X, ledger, n

S, GATES = (2, 3, 5, 4), (2, 3, 5)  # 5 streams of X
g, s = 2 * 3 * 5, 5 * n
HASH = {"multipliers": (5, 3, 7), "tables": (5, 7, 11, 13), "boundary": 1}
# 4 tokens after 3 cached ones, pools of 2 tokens
POOLS = 4 // 2 + 5 // 2 + 6 // 2 + 7 // 2
CONV = 2 * n * 3

CASES = {
    "hash-ngrams": Case(HashNGrams("y", **HASH, keep=False), ((2, 9),), ((2, 9, 4),)),
    "hash-ngrams-keep": Case(
        HashNGrams("y", **HASH, keep=True), ((2, 1), (2, 2)), ((2, 1, 4), (2, 2)), cached=2 * 2
    ),
    # 4 products and 3 sums a gate, then four steps of a number; backward these, and a product for k and for q
    "similarity-gates": ledger(
        SimilarityGates("y"),
        (S, S),
        GATES,
        [(E, s + (s - g), 2 * s, g), (E, 4 * g, g, g)],
        [(E, 4 * g, g, g), (E, s, s + g, s), (E, s, s + g, s)],
    ),
    "share-out": ledger(
        ShareOut("y"),
        (X, GATES),
        S,
        [(E, s, n + g, s)],
        [(E, s + (s - n), s + g, n), (E, s + (s - g), s + n, g)],
    ),
    # 3 taps with 2 tokens between: a product of taps forward, one for inputs and one for taps backward
    "dilated-conv": ledger(
        DilatedConv1d("y", 3, 2, False),
        (X,),
        (X,),
        [(C, CONV, n + 12, n)],
        [(C, CONV, n + 12, n), (C, CONV, n + n, 12)],
        weights={"weight": (4, 1, 3)},
    ),
    "dilated-conv-keep": ledger(
        DilatedConv1d("y", 3, 2, True),
        (X, (2, 4, 4)),
        (X, (2, 4, 4)),
        [(C, CONV, n + 12, n), (M, 0, 32, 32)],
        [(C, CONV, n + 12, n), (C, CONV, n + n, 12)],
        weights={"weight": (4, 1, 3)},
        cached=2 * 4 * 4,
    ),
    # 7 tokens are 2 blocks of 3: 2 sums and a division for each channel
    "average-blocks": ledger(
        AverageBlocks("y", 3, False),
        ((2, 7, 4),),
        ((2, 2, 4),),
        [(E, 2 * 6 * 4, 2 * 6 * 4, 16)],
        [(E, 16, 16, 2 * 6 * 4)],
    ),
    "average-blocks-keep": ledger(
        AverageBlocks("y", 3, True),
        ((2, 2, 4), (2, 2, 4)),
        ((2, 1, 4), (2, 1, 4)),
        [(E, 2 * 3 * 4, 2 * 3 * 4, 8), (M, 0, 8, 8)],
        [(E, 8, 8, 2 * 3 * 4)],
        cached=2 * 1 * 4,
    ),
    # 3 index heads, d 5; of 4 tokens after 3 cached ones each sees the closed of 3 pools of 2
    "index-even": ledger(
        IndexEvenTopK("y", 2, ClosedBlocks(2), 3),
        ((2, 4, 3, 5), (2, 3, 1, 5), (4,)),
        (2, 4, 2),
        [
            (C, 2 * 3 * 5 * 2 * POOLS, 2 * 3 * 5 * 2 * 4 * 3, 2 * (4 * 3 + 3) * 5, 3 * 2 * 4 * 3),
            (E, 0, 0, 3 * 2 * 4 * 3, 3 * 2 * 4 * 3),
            (E, 3 * 2 * POOLS, 3 * 2 * 4 * 3, 3 * 2 * 4 * 3, 2 * 4 * 3),
            (R, 0, 0, 2 * 4 * 3, 2 * 4 * 2),
        ],
        [],
        operands=0,
    ),
}


def hashed(op, weights, ids, *before):
    """Token by token; a boundary hides what lies before it."""
    rows = torch.zeros(*ids.shape, len(op.tables), dtype=torch.long)
    longest, each = len(op.multipliers), len(op.tables) // (len(op.multipliers) - 1)
    start = before[0] if before else torch.full((ids.shape[0], longest - 1), op.boundary)
    history = torch.cat([start, ids], dim=1)
    for b in range(ids.shape[0]):
        for t in range(ids.shape[1]):
            at, tokens = t + longest - 1, []
            for back in range(longest):
                between = history[b, at - back : at].tolist()
                tokens.append(op.boundary if op.boundary in between else int(history[b, at - back]))
            for j, size in enumerate(op.tables):
                value = 0
                for token, factor in zip(tokens[: 2 + j // each], op.multipliers, strict=False):
                    value ^= token * factor
                rows[b, t, j] = value % size + sum(op.tables[:j])
    return (rows, history[:, ids.shape[1] :]) if op.keep else (rows,)


def similar(op, weights, k, q):
    """Gate by gate."""
    out = torch.zeros(k.shape[:-1])
    for place in torch.cartesian_prod(*map(torch.arange, k.shape[:-1])):
        at = tuple(place.tolist())
        z = float(k[at] @ q[at]) / math.sqrt(k.shape[-1])
        root = math.copysign(math.sqrt(max(abs(z), op.least)), z)
        out[at] = 1 / (1 + math.exp(-root))
    return out


def convolved(op, weights, x, *window):
    """Tap by tap."""
    before = window[0] if window else torch.zeros(x.shape[0], op.reach, x.shape[2])
    joined, tokens = torch.cat([before, x], dim=1), x.shape[1]
    taps = [
        joined[:, i * op.dilation : i * op.dilation + tokens] * weights["weight"][:, 0, i]
        for i in range(op.kernel)
    ]
    return (sum(taps), joined[:, tokens:]) if op.keep else (sum(taps),)


def averaged(op, weights, x, *kept):
    x = torch.cat([*kept, x], dim=1)
    blocks = x.shape[1] // op.rate
    means = [sum(x[:, i * op.rate + j] for j in range(op.rate)) / op.rate for i in range(blocks)]
    return (torch.stack(means, 1), x[:, blocks * op.rate :]) if op.keep else (torch.stack(means, 1),)


def choose(op, weights, q, keys, positions):
    """The pools of each query's largest sums, one by one; those not closed come last."""
    rows = []
    for b in range(q.shape[0]):
        for t, position in enumerate(positions.tolist()):
            dots = torch.stack([head @ keys[b, :, 0].T for head in q[b, t]])
            sums = dots.clamp(min=0).sum(0)
            sums[(position + 1) // op.mask.rate :] = -math.inf
            rows.append(sorted(range(len(sums)), key=lambda i: -float(sums[i]))[: op.top_k])
    return torch.tensor(rows).view(*q.shape[:2], -1)


REFERENCES = {
    "HashNGrams": hashed,
    "SimilarityGates": similar,
    "ShareOut": lambda op, weights, y, c: torch.stack([y * c[..., i : i + 1] for i in range(5)], dim=2),
    "DilatedConv1d": convolved,
    "AverageBlocks": averaged,
    "IndexEvenTopK": choose,
}
ARGUMENTS = {("HashNGrams", 0): "ids", ("HashNGrams", 1): "ids", ("IndexEvenTopK", 2): "last_of_seven"}
UNTRAINED = {"DilatedConv1d": {1}, "AverageBlocks": {1}}
