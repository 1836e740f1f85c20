"""Cases and references of hyper-connections: gates of residual streams, and what they gather and return."""

import math

from archcli.ops import CollapseStreams, Rotate, SpreadStreams, StreamGates
from ops.case import Case, E, N, X, n

Z, S = (2, 3, 10), (2, 3, 5, 4)  # two sets of gates of 5 streams of X
z = 2 * 3 * 10

CASES = {
    # of each number a product, two sums and a sigmoid, of one set a factor; backward sigmoid, factor, scale,
    # products and sums for two scales, sums for ten biases
    "stream-gates": Case(
        StreamGates("y", (1.0, 1.5), 0.1),
        (Z,),
        Z,
        {E: 4 * z + z // 2},
        {E: 2 * z + z // 2, N: 2 * z + z},
        (z + 2 + 10, z),
        (2 * z + 2 + z) + (2 * z + 2) + (z + 10),
        {"scale": (2,), "base": (10,)},
    ),
    # five products and four sums; backward five products of the gradient, and a sum of products for a gate
    "collapse-streams": Case(
        CollapseStreams("y"),
        (S, (2, 3, 5)),
        X,
        {E: 5 * n + 4 * n},
        {E: 5 * n + (2 * 5 * n - 30)},
        (5 * n + 30, n),
        (n + 30 + 5 * n) + (5 * n + n + 30),
    ),
    # as streams that are spread, and two gradients of each stream that meet
    "spread-streams-meeting": Case(
        SpreadStreams("y", meets=True),
        (S, X, (2, 3, 5)),
        S,
        {E: 2 * 5 * n},
        {E: (2 * 5 * n - n) + (2 * 5 * n - 30) + 5 * n},
        (5 * n + n + 30, 5 * n),
        (5 * n + 30 + n) + (5 * n + n + 30) + 3 * 5 * n,
    ),
    **{
        f"rotate-last-{pairing}": Case(
            Rotate("y", pairing, last=True),
            ((2, 3, 5, 6), (3, 2), (3, 2)),
            (2, 3, 5, 6),
            {E: 3 * (2 * 3 * 5) * 4},  # 4 of 6 dims turn
            {E: 3 * (2 * 3 * 5) * 4},
            (2 * 3 * 5 * 4, 2 * 3 * 5 * 4),
            2 * (2 * 3 * 5 * 4),
        )
        for pairing in ("half", "interleaved")
    },
}


def gates(op, weights, z):
    """Number by number."""
    out, streams = z.clone(), z.shape[-1] // len(op.magnitudes)
    for place in [(b, t, i) for b in range(z.shape[0]) for t in range(z.shape[1]) for i in range(z.shape[2])]:
        which = place[2] // streams
        logit = float(z[place]) * float(weights["scale"][which]) + float(weights["base"][place[2]])
        out[place] = op.magnitudes[which] / (1 + math.exp(-logit)) + op.eps
    return out


REFERENCES = {
    "StreamGates": gates,
    "CollapseStreams": lambda op, weights, x, c: sum(
        x[:, :, i] * c[:, :, i, None] for i in range(x.shape[2])
    ),
}
