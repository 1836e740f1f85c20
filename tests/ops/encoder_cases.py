"""Cases and references of the ops of DeBERTa's and Transformer-XL's positions and of FNet's mixing."""

import math

import torch

from archcli.ops import ByDistance, DisentangledBias, Distances, Fourier, LentLinear
from ops.case import C, Case, E, M, N, X, n

CASES = {
    "lent-linear": Case(
        LentLinear("y"),
        (X, (5, 4), (5,)),
        (2, 3, 5),
        {C: 2 * n * 5, E: 30},
        {C: 2 * 2 * n * 5, N: 30},
        ((n + 20) + (30 + 5), 30 + 30),
        2 * (n + 20 + 30) + (30 + 5),
    ),
    # 36 pairs of 3 tokens, looked up twice by 9 distances, added and scaled; a distance each
    "disentangled": Case(
        DisentangledBias("y", 3, None, 3, 0.5, True, True),
        ((2, 2, 3, 6), (2, 2, 3, 6)),
        (2, 2, 3, 3),
        {M: 0, E: 36 + 36},
        {N: 2 * 36, E: 36},
        (2 * (36 + 9) + 72 + 36, 2 * 36 + 36 + 36),
        2 * (36 + 9 + 72) + 2 * 36,
    ),
    "disentangled-queries": Case(
        DisentangledBias("y", 2, None, 2, 0.5, True, False),
        ((2, 2, 3, 4),),
        (2, 2, 3, 3),
        {M: 0, E: 36},
        {N: 36, E: 36},
        ((36 + 9) + 36, 36 + 36),
        (36 + 9 + 48) + 2 * 36,
    ),
    "distances": Case(Distances("y", 5, False), ((3,),), (5,)),
    "distances-both-sides": Case(Distances("y", 5, True), ((3,),), (5 + 3,)),
    # 36 pairs of 3 tokens, looked up by 9 distances of 72 scores, and scaled
    "by-distance": Case(
        ByDistance("y", 3, 0.5, True),
        ((2, 2, 3, 6), (3,)),
        (2, 2, 3, 3),
        {M: 0, E: 36},
        {N: 36, E: 36},
        ((36 + 9) + 36, 36 + 36),
        (36 + 9 + 72) + 2 * 36,
    ),
    "by-distance-behind": Case(
        ByDistance("y", 3, 0.5, False),
        ((2, 2, 3, 3), (3,)),
        (2, 2, 3, 3),
        {M: 0, E: 36},
        {N: 36, E: 36},
        ((36 + 9) + 36, 36 + 36),
        (36 + 9 + 36) + 2 * 36,
    ),
    # 162 pairs of 9 tokens; distances 5, 6 and 7, 8 are buckets 5, 6, 7
    "disentangled-buckets": Case(
        DisentangledBias("y", 8, 8, 12, 0.5, False, True),
        ((1, 2, 9, 16),),
        (1, 2, 9, 9),
        {M: 0, E: 162},
        {N: 162, E: 162},
        ((162 + 81) + 162, 162 + 162),
        (162 + 81 + 288) + 2 * 162,
    ),
    # 2 stages for 3 tokens and 2 for 4 channels, of 5 FLOPs per number each
    "fourier": Case(Fourier("y"), (X,), X, {E: 5 * 4 * n}, {E: 5 * 4 * n}, (n, n), 2 * n),
    "fourier-longer": Case(
        Fourier("y"), ((1, 5, 6),), (1, 5, 6), {E: 5 * 6 * 30}, {E: 5 * 6 * 30}, (30, 30), 60
    ),
}


def bucket(op, distance):
    """DeBERTa 3's rule, distance = query - key: half of the buckets to one distance each, then logarithms."""
    if op.buckets is None or abs(distance) <= op.buckets // 2:
        return distance
    near = op.buckets // 2
    share = math.log(abs(distance) / near) / math.log((op.max_distance - 1) / near)
    return int(math.copysign(near + math.ceil(share * (near - 1)), distance))


def disentangled(op, weights, *scores):
    """Pair by pair: the query's score with where the key is, the key's with where it is seen from."""
    given = iter(scores)
    c2p, p2c = (next(given) if read else None for read in (op.of_queries, op.of_keys))
    batch, heads, length, rows = scores[0].shape
    out = torch.zeros(batch, heads, length, length)
    for query in range(length):
        for key in range(length):
            row = min(max(bucket(op, query - key) + op.span, 0), rows - 1)
            for table, token in ((c2p, query), (p2c, key)):
                if table is not None:
                    out[:, :, query, key] += op.scale * table[:, :, token, row]
    return out


def distances(op, weights, positions):
    """How far each query lies behind each key, and each key behind each query, the largest first."""
    newest = op.visible - len(positions)
    behind = {newest + i - j for i in range(len(positions)) for j in range(op.visible)}
    furthest = op.visible if op.both_sides and op.spare else op.visible - 1
    kept = [distance for distance in {*behind, furthest} if op.both_sides or distance >= 0]
    return torch.tensor(sorted(kept, reverse=True))


def by_distance(op, weights, scores, positions):
    """Pair by pair: the query's score with the distance; what lies ahead is masked if none is counted."""
    batch, heads, length, rows = scores.shape
    furthest = op.visible if op.both_sides else op.visible - 1
    out = torch.zeros(batch, heads, length, op.visible)
    for i, query in enumerate(positions.tolist()):
        for key in range(op.visible):
            row = min(furthest - (query - key), rows - 1)
            out[:, :, i, key] = op.scale * scores[:, :, i, row]
    return out


def fourier(op, weights, x):
    """The cosine part of both sums: sines of one direction meet sines of the other."""
    tokens, channels = (torch.arange(size) / size for size in x.shape[1:])
    out = torch.zeros_like(x)
    for u in range(x.shape[1]):
        for v in range(x.shape[2]):
            angle = 2 * math.pi * (u * tokens[:, None] + v * channels[None, :])
            out[:, u, v] = (x * angle.cos()).sum((1, 2))
    return out


REFERENCES = {
    "LentLinear": lambda op, weights, x, weight, lent: torch.einsum("bti,oi->bto", x, weight) + lent,
    "DisentangledBias": disentangled,
    "Distances": distances,
    "ByDistance": by_distance,
    "Fourier": fourier,
}
