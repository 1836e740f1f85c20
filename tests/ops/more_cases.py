"""Cases and references of the ops that encoders, sparse and linear attention bring; in the manner of cases.py and references.py."""

import math

import torch

from archcli.ops import (
    Attend,
    Causal,
    Clip,
    Combine,
    Conv1d,
    FeatureMap,
    Gather,
    KeepFirst,
    LinearAttend,
    RelativeBias,
    RelativeKeys,
    Temper,
    Transpose,
    Zeros,
)
from ops.case import C, Case, E, M, N, R, X, n

H = (2, 3, 2, 4)  # 2 sequences, 3 tokens, 2 heads, 4 wide: 48 elements


def attention(attend):
    """Variants of the causal attention of cases.py."""
    pairs, every = 4 * (1 + 2 + 3), 4 * 3 * 3
    contractions = ({C: attend.flops[C]}, {C: attend.backward[C]}, {C: attend.dense[C]})
    return {
        "attend-relu": Case(
            Attend("y", Causal(), 0.5, relu=True),
            attend.inputs,
            attend.shape,
            contractions[0] | {E: pairs},
            contractions[1] | {E: pairs},
            attend.moved,
            attend.moved_back,
            dense=contractions[2] | {E: every},
        ),
        "attend-bias": Case(
            Attend("y", Causal(), 0.5, extras=("bias",)),
            (*attend.inputs, (1, 4, 3, 3)),
            attend.shape,
            attend.flops | {E: pairs},
            attend.backward,
            (attend.moved[0] + every, attend.moved[1] + every),
            attend.moved_back,
            dense=attend.dense | {E: every},
        ),
    }


CASES = {
    "gather": Case(Gather("y"), ((2, 3), (7, 4)), X, {M: 0}, {M: 0}, (n + 6, n), 2 * n + 6),
    # 6 long with padding 1, kernel 3, stride 2: 3 places; 2 * 5 * 3 outputs of 4 * 3 products each
    "conv": Case(
        Conv1d("y", 5, 3, stride=2, padding=1),
        ((2, 4, 6),),
        (2, 5, 3),
        {C: 2 * 30 * 4 * 3, E: 30},
        {C: 2 * 2 * 30 * 4 * 3, N: 30},
        ((48 + 60) + (30 + 5), 30 + 30),
        2 * (48 + 60 + 30) + (30 + 5),
        {"weight": (5, 4, 3), "bias": (5,)},
    ),
    "keep-first": Case(KeepFirst("y"), (X,), (2, 1, 4)),
    "transpose": Case(Transpose("y"), (X,), (2, 4, 3)),
    "zeros": Case(Zeros("y"), ((2, 3),), (2, 3)),
    "temper": Case(Temper("y", 0.1, 2), (H, (3,)), H, {E: 48}, {E: 48}, (48, 48), 96),
    "clip-above": Case(Clip("y", 0.5, from_below=False), (X,), X, {E: 0}, {E: 0}, (n, n), 3 * n),
    # 12 copies of 4: each token adds up its two
    "combine-unweighted": Case(Combine("y", weighted=False), ((12, 4), (2, 3, 2), (12,)), X, {R: 48 - 24}, {R: 0}, (48 + 12, 24), 24 + 48),
    # 3 x 3 pairs, 2 heads
    "relative-bias": Case(
        RelativeBias("y", 4, 2, 3, 8, False), ((3,),), (1, 2, 3, 3), {M: 0}, {M: 0}, (18 + 9, 18), 18 + 8, {"weight": (4, 2)}
    ),
    "relative-bias-both": Case(
        RelativeBias("y", 8, 2, 3, 8, True), ((3,),), (1, 2, 3, 3), {M: 0}, {M: 0}, (18 + 9, 18), 18 + 16, {"weight": (8, 2)}
    ),
    # 12 queries against 2 * 2 + 1 vectors: 60 scores, of which 2 * 2 * 9 are gathered
    "relative-keys": Case(
        RelativeKeys("y", 2, 3, 0.5),
        (H, (3,)),
        (2, 2, 3, 3),
        {C: 2 * 60 * 4, E: 60, M: 0},
        {C: 2 * 2 * 60 * 4, E: 60, M: 0},
        ((48 + 20) + 60 + 36, 60 + 60 + 36),
        2 * (48 + 20 + 60) + 2 * 60 + (36 + 60),
        {"weight": (5, 4)},
    ),
    "features-elu": Case(FeatureMap("y", "elu", 4, True), (H,), H, {E: 2 * 48}, {E: 2 * 48}, (48, 48), 3 * 48),
    # scaled, 12 * 5 projections, the square norm of 12 vectors, 3 per exponential; the projection is not trained
    "features-softmax": Case(
        FeatureMap("y", "softmax", 5, True),
        (H,),
        (2, 3, 2, 5),
        {E: 48 + 3 * 60, C: 2 * 48 * 5, N: 2 * 48},
        {E: 48 + 3 * 60, C: 2 * 48 * 5},
        (48 + (48 + 20) + 48 + 60, 48 + 60 + 12 + 60),
        2 * 48 + (20 + 60 + 48) + 3 * 60,
        buffers={"projection": (5, 4)},
        operands=1,
    ),
    # 12 tokens and heads, states of 4 x 5: one per token when causal, 240 elements
    "linear-attend": Case(
        LinearAttend("y", True, True),
        (H, H, (2, 3, 2, 5), (2, 2, 4, 5), (2, 2, 4)),
        ((2, 3, 2, 5), (2, 2, 4, 5), (2, 2, 4)),
        {C: 2 * 2 * 12 * 20, E: 240 + 60, N: 3 * 48},
        {C: 2 * 2 * 2 * 12 * 20, E: 60},
        ((48 + 60) + 240 + (48 + 240) + 96 + (60 + 12), 240 + 240 + 60 + 12 + 60),
        2 * (48 + 60 + 240) + 2 * (48 + 240 + 60) + 120,
        cached=2 * 2 * 4 * (5 + 1),
    ),
    # one state per sequence and head: 80 elements
    "linear-attend-all": Case(
        LinearAttend("y", False, False),
        (H, H, (2, 3, 2, 5)),
        ((2, 3, 2, 5),),
        {C: 2 * 2 * 12 * 20, E: 60, N: 3 * 48},
        {C: 2 * 2 * 2 * 12 * 20, E: 60},
        ((48 + 60) + 80 + (48 + 80) + 96 + (60 + 12), 80 + 80 + 60 + 12 + 60),
        2 * (48 + 60 + 80) + 2 * (48 + 80 + 60) + 120,
    ),
}


def conv(op, weights, x):
    padded = torch.cat([torch.zeros(2, 4, 1), x, torch.zeros(2, 4, 1)], dim=-1)
    places = [padded[:, None, :, 2 * i : 2 * i + 3] * weights["weight"] for i in range(3)]
    return torch.stack([place.sum((-1, -2)) for place in places], dim=-1) + weights["bias"][:, None]


def bucket(op, distance):
    """T5's rule, distance = key - query."""
    buckets, start = op.n_buckets, 0
    if op.bidirectional:
        buckets //= 2
        start = buckets if distance > 0 else 0
        distance = abs(distance)
    else:
        distance = max(-distance, 0)
    near = buckets // 2
    if distance < near:
        return start + distance
    return start + min(near + int(math.log(distance / near) / math.log(op.max_distance / near) * (buckets - near)), buckets - 1)


def relative_bias(op, weights, positions):
    rows = [[weights["weight"][bucket(op, key - query)] for key in range(3)] for query in range(3)]
    return torch.stack([torch.stack(row) for row in rows]).permute(2, 0, 1)[None]


def relative_keys(op, weights, q, positions):
    out = torch.zeros(2, 2, 3, 3)
    for query in range(3):
        for key in range(3):
            vector = weights["weight"][max(-2, min(2, key - query)) + 2]
            out[:, :, query, key] = op.scale * (q[:, query] * vector).sum(-1)
    return out


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


REFERENCES = {
    "Gather": lambda op, weights, i, table: torch.stack([torch.stack([table[int(e)] for e in row]) for row in i]),
    "Conv1d": conv,
    "KeepFirst": lambda op, weights, x: x[:, 0:1],
    "Transpose": lambda op, weights, x: torch.stack(list(x.unbind(-1)), dim=1),
    "Zeros": lambda op, weights, ids: ids * 0,
    "Temper": lambda op, weights, q, p: q * torch.tensor([1 + 0.1 * math.log(1 + (t + 1) // 2) for t in range(3)])[:, None, None],
    "RelativeBias": relative_bias,
    "RelativeKeys": relative_keys,
    "FeatureMap": features,
    "LinearAttend": linear_attend,
}
