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

CAUSAL = [
    (C, PRODUCT, 48 + 60, 240),  # k v^T of every token
    (E, 240, 240, 240),  # S of every token: that of the one before, and k v^T
    (E, 48, 48, 48),  # z of every token: that of the one before, and k
    (C, PRODUCT, 48 + 240, 60),  # q S
    (N, 2 * 48, 48 + 48, 12),  # q . z
    (E, 60, 60 + 12, 60),  # the quotient
]
CAUSAL_BACK = [
    (E, 60, 60 + 12, 60),  # of q S: g / (q . z)
    (N, 2 * 60, 60 + 60 + 12, 12),  # of q . z: the sum of g times the quotient, over q . z
    (E, 48, 12 + 48, 48),  # of q, times z
    (E, 48, 12 + 48, 48),  # of z, times q
    (C, PRODUCT, 60 + 240, 48),  # of q, through S
    (C, PRODUCT, 60 + 48, 240),  # of S
    (E, 48, 48, 48),  # of k: the gradients of z from its token on
    (E, 240, 240, 240),  # of k v^T: those of S from its token on
    (C, PRODUCT, 240 + 60, 48),  # of k
    (C, PRODUCT, 240 + 48, 60),  # of v
]
# the same with what went before: its S of 80 and z of 16 are read
CAUSAL_AFTER = [CAUSAL[0], (E, 240, 240 + 80, 240), (E, 48, 48 + 16, 48), *CAUSAL[3:]]
ALL = [
    (C, PRODUCT, 48 + 60, 80),  # S = sum of k v^T, one per sequence and head
    (N, 48, 48, 16),  # z = sum of k
    (C, PRODUCT, 48 + 80, 60),  # q S
    (N, 2 * 48, 48 + 16, 12),  # q . z
    (E, 60, 60 + 12, 60),  # the quotient
]
ALL_BACK = [
    (E, 60, 60 + 12, 60),  # of q S
    (N, 2 * 60, 60 + 60 + 12, 12),  # of q . z
    (E, 48, 12 + 16, 48),  # of q, times z
    (N, 2 * 48, 12 + 48, 16),  # of z: times q, and the sum over the tokens, which every k then gets
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
    "linear-attend": ledger(LinearAttend("y", True, False), (H, H, V), (V,), CAUSAL, CAUSAL_BACK),
    "linear-attend-cached": ledger(
        LinearAttend("y", True, True),
        (H, H, V, STATE, NORM),
        (V, STATE, NORM),
        CAUSAL_AFTER,
        CAUSAL_BACK,
        cached=2 * 2 * 4 * (5 + 1),
    ),
    "linear-attend-all": ledger(LinearAttend("y", False, False), (H, H, V), (V,), ALL, ALL_BACK),
    # what went before is added, element by element
    "linear-attend-all-cached": ledger(
        LinearAttend("y", False, True),
        (H, H, V, STATE, NORM),
        (V, STATE, NORM),
        [*ALL, (E, 80, 2 * 80, 80), (E, 16, 2 * 16, 16)],
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
