"""Cases and references of profiles of biases, of weights of shared experts, of a trained factor."""

import torch

from archcli.ops import (
    Detach,
    GatedResidual,
    Magnitude,
    RelativeProfiles,
    RouteBesideShared,
    TrainedScale,
)
from ops.case import C, Case, E, M, N, R, X, ledger, n

# 2 sequences of 3 tokens, 2 heads, 4 numbers each: 12 queries against 2 distances
MIXTURES, OF_QUERIES = (2, 3, 2, 4), 12 * 2

CASES = {
    "relative-profiles": ledger(
        RelativeProfiles("y", 2, 3),
        (MIXTURES, (3,)),
        (2, 2, 3, 3),
        [
            (C, 2 * OF_QUERIES * 4, 48 + 2 * 4, OF_QUERIES),
            (M, 0, 36 + 9, 36),  # of 12 queries, biases of 3 keys each, by 9 distances
        ],
        [
            (C, 2 * OF_QUERIES * 4, OF_QUERIES + 2 * 4, 48),
            (C, 2 * OF_QUERIES * 4, OF_QUERIES + 48, 2 * 4),
            (N, 36, 36 + 9, OF_QUERIES),
        ],
        weights={"weight": (4, 2)},
    ),
    # 7 logits, of which 2 are of shared experts: 4 weights for each of 6 tokens
    "route-beside-shared": Case(
        RouteBesideShared("y", 2, 2, 1.7),
        ((2, 3, 7),),
        ((2, 3, 2),) * 4,
        {R: 42 + 30 + 4 * 24},
        {R: 42 + 4 * 24 + 2 * 24},
        (42 + 1, 2 * 24),
        42 + 24 + 42 + 2 * 24 + 1,
        {"scale": (1,)},
        {"correction_bias": (5,)},
    ),
    "route-beside-shared-unscaled": Case(
        RouteBesideShared("y", 1, 3),
        ((2, 3, 7),),
        ((2, 3, 1),) * 2 + ((2, 3, 3),) * 2,
        {R: 42 + 24 + 3 * 24},
        {R: 42 + 3 * 24 + 2 * 24},
        (42 + 1, 2 * 24),
        42 + 24 + 42 + 2 * 24 + 1,
        {"scale": (1,)},
        {"correction_bias": (4,)},
    ),
    "trained-scale": ledger(
        TrainedScale("y"),
        (X,),
        X,
        [(E, n, n + 1, n)],
        [(E, n, n + 1, n), (N, 2 * n, 2 * n, 1)],
        weights={"scale": (1,)},
    ),
    "trained-scale-per-channel": ledger(
        TrainedScale("y", per_channel=True),
        (X,),
        X,
        [(E, n, n + 4, n)],
        [(E, n, n + 4, n), (N, 2 * n, 2 * n, 4)],
        weights={"scale": (4,)},
    ),
    "trained-scale-and-shift": ledger(
        TrainedScale("y", per_channel=True, bias=True),
        (X,),
        X,
        [(E, n, n + 4, n), (E, n, n + 4, n)],
        [(E, n, n + 4, n), (N, 2 * n, 2 * n, 4), (N, n, n, 4)],
        weights={"scale": (4,), "bias": (4,)},
    ),
    "trained-scale-stored-minus-one": ledger(
        TrainedScale("y", per_channel=True, offset=1.0),
        (X,),
        X,
        [(E, n, n + 4, n)],
        [(E, n, n + 4, n), (N, 2 * n, 2 * n, 4)],
        weights={"scale": (4,)},
    ),
    # W [4, 5], A [3, 5], B [4, 3]: a product of 4 x 5 x 3, and four steps for each of 20 numbers
    "magnitude": ledger(
        Magnitude("y", 0.5),
        (X, X, (4, 5), (3, 5), (4, 3)),
        X,
        [
            (C, 2 * 20 * 3, 15 + 12, 20),
            (N, 4 * 20 + 4, 2 * 20, 4),
            (E, 3 * n + 4, 2 * n + 2 * 4, n),
        ],
        [(E, n, n + 4, n), (E, n, n, n), (N, 2 * n + 4, 2 * n + 4, 4)],
        weights={"weight": (4,)},
        operands=0,
    ),
    "magnitude-biased": ledger(
        Magnitude("y", 0.5),
        (X, X, (4, 5), (3, 5), (4, 3), (4,)),
        X,
        [
            (C, 2 * 20 * 3, 15 + 12, 20),
            (N, 4 * 20 + 4, 2 * 20, 4),
            (E, 5 * n + 4, 2 * n + 3 * 4, n),
        ],
        [(E, n, n + 4, n), (E, n, n, n), (N, 2 * n + 4, 2 * n + 4, 4)],
        weights={"weight": (4,)},
        operands=0,
    ),
    "detach": Case(Detach("y"), (X,), X),
    "gated-residual": ledger(
        GatedResidual("y", 0.3, 1e-3),
        (X, X),
        X,
        [(E, 3 * n, 2 * n + 4, n)],
        [(E, n, n + 4, n), (E, n, n + 4, n), (N, 4 * n, 3 * n, 4)],
        weights={"gate": (4,)},
    ),
}


def profiles(op, weights, r, positions):
    """Query by query, key by key."""
    out = torch.zeros(2, 2, 3, 3)
    for query in range(3):
        for key in range(max(0, query - op.extent + 1), query + 1):
            out[:, :, query, key] = r[:, query] @ weights["weight"][:, query - key]
    return out


def route(op, weights, logits):
    """Token by token, the best of those that may be chosen; then all that take part, by their share."""
    rows = [
        _of_token(op, token.sigmoid(), weights["correction_bias"], weights["scale"])
        for token in logits.reshape(-1, logits.shape[-1])
    ]
    return tuple(torch.stack(column).view(*logits.shape[:-1], -1) for column in zip(*rows, strict=True))


def _of_token(op, scores, bias, factor):
    first = len(scores) - op.shared
    ranked = sorted(range(first), key=lambda expert: -float(scores[expert] + bias[expert]))
    chosen, beside = ranked[: op.top_k], [*range(first, len(scores))]
    total = scores[[*chosen, *beside]].sum()
    chosen_shares, beside_shares = (scores[part] / total * op.scale * factor for part in (chosen, beside))
    every = [expert - first for expert in beside]
    return chosen_shares, torch.tensor(chosen), beside_shares, torch.tensor(every)


def gated_residual(op, weights, x, b):
    """Channel by channel: shares whose squares sum to 1."""
    out = torch.empty_like(x)
    for channel, gate in enumerate(weights["gate"]):
        share = 1 / (1 + torch.exp(-gate / op.temperature))
        stream = max(1 - float(share) ** 2, op.least) ** 0.5
        out[..., channel] = stream * x[..., channel] + share * b[..., channel]
    return out


def magnitude(op, weights, y, low, *more):
    """Row by row: the length of each merged row is m."""
    w, a, b, bias = (*more, torch.zeros(()))[:4]
    rows = torch.linalg.norm(w + op.factor * torch.einsum("or,ri->oi", b, a), dim=1)
    return torch.einsum("...o,o->...o", y - bias + op.factor * low, weights["weight"] / rows) + bias


REFERENCES = {
    "Detach": lambda op, weights, x: x,
    "Magnitude": magnitude,
    "RelativeProfiles": profiles,
    "RouteBesideShared": route,
    "TrainedScale": lambda op, weights, x: x * (op.offset + weights["scale"]) + weights.get("bias", 0),
    "GatedResidual": gated_residual,
}
