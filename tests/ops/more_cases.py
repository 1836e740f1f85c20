"""Cases and references of the ops that encoders and relative positions bring.

In the manner of cases.py and references.py.
"""

import math
from itertools import product

import torch

from archcli.ops import (
    Activate,
    ActivateXIELU,
    Clip,
    CollectHeads,
    Combine,
    Conv1d,
    Gather,
    HeadBias,
    KeepFirst,
    LentNormalize,
    QueryTemperature,
    RelativeBias,
    RelativeKeys,
    Route,
    SpreadHeads,
    Transpose,
    WeightedDifference,
    Zeros,
)
from ops import (
    encoder_cases,
    grid_cases,
    place_cases,
    placing_cases,
    span_cases,
    tile_cases,
    token_cases,
)
from ops.case import C, Case, E, M, N, R, X, n

H = (2, 3, 2, 4)  # 2 sequences, 3 tokens, 2 heads, 4 wide: 48 elements


CASES = {
    # backward: 6 gradients of 4, each added to the row of its id
    "gather": Case(Gather("y"), ((2, 3), (7, 4)), X, {M: 0}, {N: 6 * 4}, (n + 6, n), (n + 6) + 7 * 4),
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
    # as LayerNorm with its weights: 7 FLOPs each forward, 9 and 4 backward
    "lent-layernorm": Case(
        LentNormalize("y", 1e-5, centred=True),
        (X, (4,), (4,)),
        X,
        {N: 7 * n},
        {N: (9 + 4) * n},
        (n + 8, n),
        (2 * n + 8 + n) + (2 * n + 8),
    ),
    "lent-rmsnorm": Case(
        LentNormalize("y", 1e-5, offset=1.0),
        (X, (4,)),
        X,
        {N: 4 * n},
        {N: (6 + 3) * n},
        (n + 4, n),
        (2 * n + 4 + n) + (2 * n + 4),
    ),
    "keep-first": Case(KeepFirst("y"), (X,), (2, 1, 4)),
    "transpose": Case(Transpose("y"), (X,), (2, 4, 3)),
    "zeros": Case(Zeros("y"), ((2, 3),), (2, 3)),
    "xielu": Case(
        ActivateXIELU("y", 0.5, 1e-6),
        (X,),
        X,
        {E: n},
        {E: n, N: 2 * n},
        (n + 2, n),
        3 * n + 2 * (2 * n + 1),
        {"alpha_p": (1,), "alpha_n": (1,)},
    ),
    # vectors of 3; each one's gradient is a sum of 2 n and 3 products
    "difference": Case(
        WeightedDifference("y", 3, 0.4),
        (X, X),
        X,
        {N: 12, E: 2 * n},
        {N: 4 * (2 * n + 3), E: n},
        (12 + 2 * n + 1, 1 + n),
        4 * (2 * n + 6) + 2 * n + 1,
        dict.fromkeys(WeightedDifference.vectors, (3,)),
    ),
    "temper": Case(QueryTemperature("y", 0.1, 2), (H, (3,)), H, {E: 48}, {E: 48}, (48, 48), 96),
    "temper-power": Case(
        QueryTemperature("y", 0.1, 2, power=True), (H, (3,)), H, {E: 48}, {E: 48}, (48, 48), 96
    ),
    "temper-above": Case(
        QueryTemperature("y", 0.1, 2, above=True), (H, (3,)), H, {E: 48}, {E: 48}, (48, 48), 96
    ),
    "head-bias": Case(HeadBias("y"), (H,), H, {E: 48}, {N: 48}, (48 + 2, 48), 48 + 2, {"bias": (2,)}),
    "temper-from-0": Case(QueryTemperature("y", 0.1, 2, 0), (H, (3,)), H, {E: 48}, {E: 48}, (48, 48), 96),
    "clip-above": Case(Clip("y", 0.5, from_below=False), (X,), X, {E: 0}, {E: 0}, (n, n), 3 * n),
    # 12 copies of 4: each token adds up its two
    "combine-unweighted": Case(
        Combine("y", weighted=False),
        ((12, 4), (2, 3, 2), (12,)),
        X,
        {R: 48 - 24},
        {R: 0},
        (48 + 12, 24),
        24 + 48,
    ),
    # 3 x 3 pairs, 2 heads; backward each of 18 gradients is added to its bucket, which is looked up again
    "route-by-logits": Case(
        Route("y", 2, "sigmoid", correction=True, ranked_by="logits"),
        ((2, 3, 5),),
        ((2, 3, 2), (2, 3, 2)),
        {R: 1 * 30 + 30 + 2 * 12},
        {R: 1 * 30 + 2 * 12},
        (30, 2 * 12),
        30 + 12 + 30,
        buffers={"correction_bias": (5,)},
    ),
    # two softmaxes over 5, whose numbers are compared by a subtraction and a division
    "route-one-by-one": Case(
        Route("y", 2, "sparsemixer", scale=2.5, jitter=0.4),
        ((2, 3, 5),),
        ((2, 3, 2), (2, 3, 2)),
        {R: (4 + 2) * 60 + 12},
        {R: 4 * 60 + 12},
        (30, 2 * 12),
        30 + 12 + 30,
    ),
    # 12 copies of 3 heads of 2 numbers
    "collect-heads": Case(
        CollectHeads("y", 3),
        ((12, 6), (2, 3, 2), (12,)),
        (2, 3, 6, 2),
        {R: 0},
        {R: 0},
        (72 + 12, 72),
        72 + 12 + 72,
    ),
    "spread-heads": Case(
        SpreadHeads("y"),
        ((2, 3, 6, 2), (2, 3, 2), (12,)),
        (12, 6),
        {R: 0},
        {R: 0},
        (72 + 12, 72),
        72 + 12 + 72,
    ),
    "route-by-a-parameter": Case(
        Route("y", 2, "sigmoid"),
        ((2, 3, 5), (5,)),
        ((2, 3, 2), (2, 3, 2)),
        {R: 1 * 30 + 30 + 2 * 12},
        {R: 1 * 30 + 2 * 12},
        (30, 2 * 12),
        30 + 12 + 30,
    ),
    "exp": Case(Activate("y", "exp"), (X,), X, {E: n}, {E: n}, (n, n), 3 * n),
    "softplus": Case(Activate("y", "softplus"), (X,), X, {E: n}, {E: n}, (n, n), 3 * n),
    "relative-bias": Case(
        RelativeBias("y", 4, 2, 3, 8, False),
        ((3,),),
        (1, 2, 3, 3),
        {M: 0},
        {N: 18},
        (18 + 9, 18),
        (18 + 9) + 8,
        {"weight": (4, 2)},
    ),
    "relative-bias-both": Case(
        RelativeBias("y", 8, 2, 3, 8, True),
        ((3,),),
        (1, 2, 3, 3),
        {M: 0},
        {N: 18},
        (18 + 9, 18),
        (18 + 9) + 16,
        {"weight": (8, 2)},
    ),
    # 12 queries against 2 * 2 + 1 vectors: 60 scores, of which 2 * 2 * 9 are gathered by 9 distances;
    # backward 36 are added up to 60
    "relative-keys": Case(
        RelativeKeys("y", 2, 3, 0.5),
        (H, (3,)),
        (2, 2, 3, 3),
        {C: 2 * 60 * 4, E: 60, M: 0},
        {C: 2 * 2 * 60 * 4, E: 60, N: 36},
        ((48 + 20) + 60 + (36 + 9), 60 + 60 + 36),
        2 * (48 + 20 + 60) + 2 * 60 + (36 + 9 + 60),
        {"weight": (5, 4)},
    ),
    **encoder_cases.CASES,
    **grid_cases.CASES,
    **token_cases.CASES,
    **span_cases.CASES,
    **placing_cases.CASES,
    **place_cases.CASES,
    **tile_cases.CASES,
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
    return start + min(
        near + int(math.log(distance / near) / math.log(op.max_distance / near) * (buckets - near)),
        buckets - 1,
    )


def tempering(op, position):
    """The factor by which the query at a position is multiplied."""
    if op.power:
        return (1 + (position + op.first) / 2) ** 0.1
    if op.above:
        return 1 + 0.1 * math.log(max(1, (position + op.first) / 2))
    return 1 + 0.1 * math.log(1 + (position + op.first) // 2)


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


def lent_norm(op, weights, x, gain, *shift):
    out = torch.zeros_like(x)
    for b, t in product(range(x.shape[0]), range(x.shape[1])):
        row = x[b, t].tolist()
        mean = sum(row) / len(row) if op.centred else 0.0
        spread = math.sqrt(sum((z - mean) ** 2 for z in row) / len(row) + op.eps)
        out[b, t] = (x[b, t] - mean) / spread * (op.offset + gain) + sum(shift)
    return out


REFERENCES = {
    "Gather": lambda op, weights, i, table: torch.stack(
        [torch.stack([table[int(e)] for e in row]) for row in i]
    ),
    "Conv1d": conv,
    "KeepFirst": lambda op, weights, x: x[:, 0:1],
    "LentNormalize": lent_norm,
    "Transpose": lambda op, weights, x: torch.stack(list(x.unbind(-1)), dim=1),
    "Zeros": lambda op, weights, ids: ids * 0,
    "HeadBias": lambda op, weights, x: torch.stack(
        [x[:, :, head] + weights["bias"][head] for head in range(2)], dim=2
    ),
    "QueryTemperature": lambda op, weights, q, p: (
        q * torch.tensor([tempering(op, t) for t in range(3)])[:, None, None]
    ),
    "RelativeBias": relative_bias,
    "RelativeKeys": relative_keys,
    **encoder_cases.REFERENCES,
    **grid_cases.REFERENCES,
    **token_cases.REFERENCES,
    **span_cases.REFERENCES,
    **placing_cases.REFERENCES,
    **place_cases.REFERENCES,
    **tile_cases.REFERENCES,
}
