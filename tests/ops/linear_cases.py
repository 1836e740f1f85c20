"""Cases and references of linear attention, each cost as the lines of a ledger.

Class, FLOPs, elements read, elements written.
"""

import math

import torch

from archcli.ops import FeatureMap, LinearAttend
from ops.case import C, E, N, ledger

# 2 sequences, 3 tokens, 2 heads: 12 vectors; 4 features each, values of 5
H, V = (2, 3, 2, 4), (2, 3, 2, 5)
STATE, NORM = (2, 2, 4, 5), (2, 2, 4)
PRODUCT = 2 * 12 * 4 * 5

# in chunks of 2 tokens: 2 chunks, of 3 and 1 pairs of 4 and 1, for each of 4 heads
PAIRS, BLOCKS = 4 * (3 + 1), 4 * (4 + 1)
SUMS, TOTALS = 4 * 2 * 4 * 5, 4 * 2 * 4  # S and z of every chunk
CAUSAL = [
    (C, 2 * 4 * PAIRS, 2 * 4 * BLOCKS, 48 + 48, BLOCKS),  # q k^T
    (N, PAIRS, BLOCKS, BLOCKS, 12),  # their sums
    (C, 2 * 5 * PAIRS, 2 * 5 * BLOCKS, BLOCKS + 60, 60),  # times v
    (E, 60 + 12, 2 * (60 + 12), 60 + 12),  # added to q S and q z
    (C, PRODUCT, 48 + 60, SUMS),  # k v^T
    (N, 48, 48, TOTALS),  # the sum of k
    (E, SUMS + TOTALS, SUMS + TOTALS, SUMS + TOTALS),  # S and z: those of the chunk before, and these
    (C, PRODUCT, 48 + SUMS, 60),  # q S
    (C, 2 * 48, 48 + TOTALS, 12),  # q z
    (E, 60, 60 + 12, 60),  # the quotient
]
QUOTIENT_BACK = [
    (E, 60, 60 + 12, 60),  # of what is divided: g / (q z)
    (N, 2 * 60, 60 + 60 + 12, 12),  # of the divisor: the sum of g times the quotient, over it
]
CAUSAL_BACK = [
    *QUOTIENT_BACK,
    (C, 2 * 4 * PAIRS, 2 * 4 * BLOCKS, 48 + BLOCKS, 48),  # of q
    (C, 2 * 4 * PAIRS, 2 * 4 * BLOCKS, 48 + BLOCKS, 48),  # of k
    (C, 2 * 5 * PAIRS, 2 * 5 * BLOCKS, 60 + 60, BLOCKS),  # of the scores
    (C, 2 * 5 * PAIRS, 2 * 5 * BLOCKS, BLOCKS + 60, 60),  # of v
    (C, PRODUCT, 60 + SUMS, 48),  # of q, through S
    (C, PRODUCT, PRODUCT // 3, 60 + 48, SUMS),  # of S: a run needs none of the sums it is given
    (C, 2 * 48, 12 + TOTALS, 48),  # of q, through z
    (C, 2 * 48, 2 * 48 // 3, 12 + 48, TOTALS),  # of z, likewise
    (E, SUMS + TOTALS, SUMS + TOTALS, SUMS + TOTALS),  # of k v^T and k: those of the sums from their chunk on
    (C, PRODUCT, PRODUCT * 2 // 3, SUMS + 60, 48),  # of k: no token reads the last chunk's sums
    (C, PRODUCT, PRODUCT * 2 // 3, SUMS + 48, 60),  # of v, likewise
]
UNREACHED = (PRODUCT + 2 * 48) * 2 // 3 + 2 * PRODUCT // 3
# the same with what went before: its S of 80 and z of 16 are read
CAUSAL_AFTER = [*CAUSAL[:6], (E, SUMS + TOTALS, SUMS + TOTALS + 96, SUMS + TOTALS), *CAUSAL[7:]]
STEPS = [
    (C, PRODUCT, 48 + 60, 240),  # k v^T of every token
    (E, 240 + 48, 240 + 48 + 96, 240 + 48),  # S and z of every token: those of the one before, k v^T and k
    (C, PRODUCT, 48 + 240, 60),  # q S
    (C, 2 * 48, 48 + 48, 12),  # q z
    (E, 60, 60 + 12, 60),  # the quotient
]
STEPS_BACK = [
    *QUOTIENT_BACK,
    (C, PRODUCT, 60 + 240, 48),  # of q, through S
    (C, PRODUCT, 60 + 48, 240),  # of S
    (C, 2 * 48, 12 + 48, 48),  # of q, through z
    (C, 2 * 48, 12 + 48, 48),  # of z
    (E, 240 + 48, 240 + 48, 240 + 48),  # of k v^T and k: those of the sums from their token on
    (C, PRODUCT, 240 + 60, 48),  # of k
    (C, PRODUCT, 240 + 48, 60),  # of v
]
ALL = [
    (C, PRODUCT, 48 + 60, 80),  # S = sum of k v^T, one per sequence and head
    (N, 48, 48, 16),  # z = sum of k
    (C, PRODUCT, 48 + 80, 60),  # q S
    (C, 2 * 48, 48 + 16, 12),  # q z
    (E, 60, 60 + 12, 60),  # the quotient
]
ALL_BACK = [
    *QUOTIENT_BACK,
    (C, 2 * 48, 12 + 16, 48),  # of q, times z
    (C, 2 * 48, 12 + 48, 16),  # of z, which every k then gets
    (C, PRODUCT, 60 + 80, 48),  # of q, through S
    (C, PRODUCT, 60 + 48, 80),  # of S
    (C, PRODUCT, 80 + 60, 48),  # of k
    (C, PRODUCT, 80 + 48, 60),  # of v
]

CASES = {
    # elu, and 1 is added; the gradient reads what came in and the output
    "features-elu": ledger(
        FeatureMap("y", "elu", 4, True), (H,), H, [(E, 2 * 48, 48, 48)], [(E, 48, 48 + 48, 48)]
    ),
    "features-softmax": ledger(
        FeatureMap("y", "softmax", 5, True),
        (H,),
        (2, 3, 2, 5),
        [
            (E, 48, 48, 48),  # x' = x / d^(1/4)
            (C, 2 * 48 * 5, 48 + 20, 60),  # w x'
            (N, 2 * 48, 48, 12),  # |x'|^2: squares and sums
            (E, 3 * 60, 60 + 12, 60),  # less the norm, exp, over sqrt(m)
        ],
        [
            (E, 2 * 60, 60 + 60, 60),  # over sqrt(m), times exp
            (N, 60, 60, 12),  # of the norm: the sum over its features
            (E, 48, 48 + 12, 48),  # of x', through the norm
            (C, 2 * 48 * 5, 60 + 20, 48),  # of x', through the product; w is stored, not trained
            (E, 48, 48, 48),  # of x
        ],
        buffers={"projection": (5, 4)},
        operands=1,
    ),
    "linear-attend": ledger(
        LinearAttend("y", True, False, 2, "chunked"),
        (H, H, V),
        (V,),
        CAUSAL,
        CAUSAL_BACK,
        unreached=UNREACHED,
    ),
    "linear-attend-cached": ledger(
        LinearAttend("y", True, True, 2, "chunked"),
        (H, H, V, STATE, NORM),
        (V, STATE, NORM),
        CAUSAL_AFTER,
        CAUSAL_BACK,
        cached=2 * 2 * 4 * (5 + 1),
        unreached=UNREACHED,
    ),
    "linear-attend-recurrent": ledger(
        LinearAttend("y", True, True, 2, "recurrent"),
        (H, H, V, STATE, NORM),
        (V, STATE, NORM),
        STEPS,
        STEPS_BACK,
        cached=2 * 2 * 4 * (5 + 1),
    ),
    "linear-attend-all": ledger(LinearAttend("y", False, False), (H, H, V), (V,), ALL, ALL_BACK),
    # what went before is added, element by element
    "linear-attend-all-cached": ledger(
        LinearAttend("y", False, True),
        (H, H, V, STATE, NORM),
        (V, STATE, NORM),
        [*ALL, (E, 96, 2 * 96, 96)],
        ALL_BACK,
        cached=2 * 2 * 4 * (5 + 1),
    ),
}

UNTRAINED = {"LinearAttend": {3, 4}}
"""Inputs that hold what a cache held."""


def features(op, weights, x):
    if op.kernel == "elu":
        return torch.where(x > 0, x + 1, x.exp())
    scaled = x / x.shape[-1] ** 0.25
    projected = torch.stack([(scaled * row).sum(-1) for row in weights["projection"]], dim=-1)
    return torch.exp(projected - (scaled**2).sum(-1)[..., None] / 2) / math.sqrt(5)


def linear_attend(op, weights, q, k, v, *state):
    """One token after another."""
    total = torch.zeros(2, 2, 4, 5) if not state else state[0].clone()
    norm = torch.zeros(2, 2, 4) if not state else state[1].clone()
    out, seen = torch.zeros(2, 3, 2, 5), []
    for t in range(3):
        total = total + k[:, t, :, :, None] * v[:, t, :, None, :]
        norm = norm + k[:, t]
        seen.append((total, norm))
    for t in range(3):
        sums, ones = seen[t if op.causal else 2]
        out[:, t] = (q[:, t, :, :, None] * sums).sum(-2) / (q[:, t] * ones).sum(-1, keepdim=True)
    return (out, total, norm) if op.keep else (out,)


REFERENCES = {"FeatureMap": features, "LinearAttend": linear_attend}
