"""Cases and references of the ops on spans of tokens, distances between them, and frames of a spectrogram."""

from itertools import product

import torch

from archcli.ops import (
    AxisTables,
    ClippedBias,
    CutSpans,
    DepthwiseConv1d,
    Distances,
    FlattenFrames,
    FramesImage,
    JoinSpans,
    MaskSpans,
    RelativeVectors,
    RepeatBatch,
    Softmax,
    SpanDistances,
)
from ops.case import C, Case, E, M, N, X, ledger, n

HEADS = (2, 3, 2, 4)
CASES = {
    # 3 tokens in spans of 2, one more in front of each: 2 spans of 3 in each of 2 sequences
    "cut-spans": ledger(CutSpans("y", 2, 1), (X,), (4, 3, 4), [(M, 0, n, 48)], [(M, 0, 48, n)]),
    "join-spans": ledger(JoinSpans("y", 3), ((4, 2, 4),), X, [(M, 0, n, n)], [(M, 0, n, n)]),
    "mask-spans": ledger(
        MaskSpans("y", 3, 1, 1, 0), ((4, 2, 2, 3),), (4, 2, 2, 3), [(E, 48, 48, 48)], [(E, 48, 48, 48)]
    ),
    "mask-padding": ledger(
        MaskSpans("y", 3, 0), ((4, 2, 2, 2),), (4, 2, 2, 2), [(E, 32, 32, 32)], [(E, 32, 32, 32)]
    ),
    # 2 queries with 3 distances each, at 4 keys
    "span-distances": ledger(
        SpanDistances("y", 4),
        ((2, 3, 2, 3),),
        (2, 3, 2, 4),
        [(M, 0, 48 + 8, 48)],
        [(N, 48, 48 + 8, 36)],
    ),
    # 3 x 3 pairs have a vector of 4 each, of 1 behind to 2 ahead, and a score in 2 sequences for 2 heads
    "relative-vectors": ledger(
        RelativeVectors("y", 1, 2, 3, 0.5),
        (HEADS, (3,)),
        (2, 2, 3, 3),
        [(M, 0, 36 + 9, 36), (C, 2 * 36 * 4, 48 + 36, 36), (E, 36, 36, 36)],
        [(N, 36, 36 + 9, 16), (C, 2 * 2 * 36 * 4, 36 + 36 + 48 + 36, 48 + 36), (E, 36, 36, 36)],
        weights={"weight": (4, 4)},
    ),
    # distances of 3 queries and 4 keys, of 2 heads: -2 to 1, of which symmetric ones need half
    "clipped-bias": ledger(
        ClippedBias("y", 2, 4, 2),
        ((3,),),
        (1, 2, 3, 4),
        [(M, 0, 24 + 12, 24)],
        [(N, 24, 24 + 12, 8)],
        weights={"weight": (4, 2)},
    ),
    "clipped-bias-symmetric": ledger(
        ClippedBias("y", 2, 4, 2, symmetric=True),
        ((3,),),
        (1, 2, 3, 4),
        [(M, 0, 24 + 12, 24)],
        [(N, 24, 24 + 12, 4)],
        weights={"weight": (2, 2)},
    ),
    "distances-between": Case(Distances("y", 3, True, False), ((3,),), (5,)),
    # 2 zeros in front and one behind: 4 places of 4 channels in each of 2 sequences
    "depthwise-conv": ledger(
        DepthwiseConv1d("y", 3, 2, 1, bias=True),
        (X,),
        (2, 4, 4),
        [(C, 2 * 32 * 3, n + 12, 32), (E, 32, 32 + 4, 32)],
        [(C, 2 * 2 * 32 * 3, 2 * 32 + 12 + n, n + 12), (N, 32, 32, 4)],
        weights={"weight": (4, 1, 3), "bias": (4,)},
    ),
    "frames-image": Case(FramesImage("y"), (X,), (2, 1, 3, 4)),
    "flatten-frames": ledger(
        FlattenFrames("y"), ((2, 4, 6, 5),), (2, 6, 20), [(M, 0, 240, 240)], [(M, 0, 240, 240)]
    ),
    "repeat-batch": ledger(
        RepeatBatch("y"), ((1, 3, 4), (5, 2)), (5, 3, 4), [(M, 0, 0, 0)], [(N, 60, 60, 12)]
    ),
    # subtract the maximum, exp, add, divide; backward a scale more
    "softmax": ledger(Softmax("y"), (X,), X, [(N, 4 * n, n, n)], [(N, 5 * n, 2 * n, n)]),
    # 3 x 2 places, a row of each of two tables of 5
    "axis-tables": ledger(
        AxisTables("y", 5, (3, 2)),
        ((2, 6, 4),),
        (6, 4),
        [(E, 24, 48, 24)],
        [(N, 48, 48, 40)],
        weights={"weight": (2, 5, 4)},
    ),
}


def cut(op, weights, x):
    out = torch.zeros(2, 2, 3, 4)
    for i, j in product(range(2), range(3)):
        if 0 <= 2 * i + j - 1 < 3:
            out[:, i, j] = x[:, 2 * i + j - 1]
    return out.flatten(0, 1)


def join(op, weights, x):
    return torch.stack([torch.stack([x[2 * b + t // 2, t % 2] for t in range(3)]) for b in range(2)])


def mask(op, weights, scores):
    """Token 3 of 4 is padding: it sees itself and what is not out of reach, and no other sees it."""
    out = scores.clone()
    for span, i, j in product(range(4), range(2), range(scores.shape[3])):
        query, key = span % 2 * 2 + i, span % 2 * 2 + j - op.before
        far = op.back is not None and (query - key > op.back or key > query + op.ahead)
        itself = query == key == 3
        if not itself and (far or not 0 <= key < 3):
            out[span, :, i, j] = torch.finfo(torch.float32).min
    return out


def by_distance(op, weights, scores):
    out = torch.zeros(2, 3, 2, 4)
    for i, j in product(range(2), range(4)):
        if 0 <= j - i < 3:
            out[:, :, i, j] = scores[:, :, i, j - i]
    return out


def vectors(op, weights, q, positions):
    out = torch.zeros(2, 2, 3, 3)
    for i, j in product(range(3), range(3)):
        row = weights["weight"][min(max(j - i, -1), 2) + 1]
        out[:, :, i, j] = 0.5 * (q[:, i] * row).sum(-1)
    return out


def clipped(op, weights, positions):
    out = torch.zeros(1, 2, 3, 4)
    for i, j in product(range(3), range(4)):
        # the first query is the second of the keys
        distance = min(max(j - (i + 1), -2), 1)
        out[0, :, i, j] = weights["weight"][min(abs(distance), 1) if op.symmetric else distance + 2]
    return out


def depthwise(op, weights, x):
    framed = torch.zeros(2, 6, 4)
    framed[:, 2:5] = x
    taps = weights["weight"][:, 0]
    rows = [sum(framed[:, t + k] * taps[:, k] for k in range(3)) for t in range(4)]
    return torch.stack(rows, dim=1) + weights["bias"]


def tables(op, weights, x):
    columns, rows = weights["weight"]
    return torch.stack([columns[j] + rows[i] for i, j in product(range(3), range(2))])


REFERENCES = {
    "CutSpans": cut,
    "JoinSpans": join,
    "MaskSpans": mask,
    "SpanDistances": by_distance,
    "RelativeVectors": vectors,
    "ClippedBias": clipped,
    "DepthwiseConv1d": depthwise,
    "FramesImage": lambda op, weights, x: x.view(2, 1, 3, 4),
    "FlattenFrames": lambda op, weights, x: torch.cat([x[:, c] for c in range(4)], dim=-1),
    "RepeatBatch": lambda op, weights, x, like: torch.cat([x] * 5),
    "Softmax": lambda op, weights, x: x.exp() / x.exp().sum(-1, keepdim=True),
    "AxisTables": tables,
}
