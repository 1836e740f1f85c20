"""Cases and references of compressed attention, of choices that are no expert, of zeros behind vectors."""

import torch

from archcli.ops import AverageHeads, ConvPair, SkipLast, Widen
from ops.case import C, E, M, N, R, X, ledger, n

# 2 sequences, 3 tokens, 4 channels in 2 groups; 3 taps, then 2, so that the first has 4 places a sequence
BETWEEN, WINDOW = 2 * 4 * 4, (2, 3, 4)
PAIR = [
    (C, 2 * BETWEEN * 3, 2 * 6 * 4 + 12, BETWEEN),  # of 6 inputs a sequence, 3 taps of each channel
    (E, BETWEEN, BETWEEN + 4, BETWEEN),
    (C, 2 * n * 2 * 2, BETWEEN + 16, n),  # of 2 channels, 2 taps
    (E, n, n + 4, n),
]
PAIR_BACK = [
    (C, 2 * BETWEEN * 3, 12 + BETWEEN, 2 * 6 * 4),
    (C, 2 * BETWEEN * 3, 2 * 6 * 4 + BETWEEN, 12),
    (N, BETWEEN, BETWEEN, 4),
    (C, 2 * n * 2 * 2, 16 + n, BETWEEN),
    (C, 2 * n * 2 * 2, BETWEEN + n, 16),
    (N, n, n, 4),
]
WEIGHTS = {"first_weight": (4, 1, 3), "first_bias": (4,), "second_weight": (4, 2, 2), "second_bias": (4,)}
QUERIES, KEYS = (2, 3, 4, 5), (2, 3, 2, 5)

CASES = {
    "conv-pair": ledger(ConvPair("y", 3, 2, 2, False), (X,), (X,), PAIR, PAIR_BACK, weights=WEIGHTS),
    "conv-pair-cached": ledger(
        ConvPair("y", 3, 2, 2, True),
        (X, WINDOW),
        (X, WINDOW),
        [*PAIR, (M, 0, 24, 24)],
        PAIR_BACK,
        weights=WEIGHTS,
        cached=24,
    ),
    # 120 numbers of queries, 60 of keys
    "average-heads": ledger(
        AverageHeads("y"),
        (QUERIES, KEYS),
        (QUERIES, KEYS),
        [(E, 3 * 120, 180, 180)],  # a sum and a product for each; then as many sums and products
        [(E, 2 * 120 + 60, 180, 120), (E, 60, 120, 60)],
    ),
    "skip-last": ledger(
        SkipLast("y", 3), ((2, 3, 1),) * 2, ((2, 3, 1),) * 2, [(R, 6, 12, 12)], [(R, 6, 12, 6)]
    ),
    "widen": ledger(Widen("y", 3), (X,), (2, 3, 7), [(M, 0, n, n + 18)], [(M, 0, n, n)]),
}
UNTRAINED = {"ConvPair": {1}}


def conv_pair(op, weights, x, window=None):
    """Token by token: the first convolution at every place that the second reads, then this."""
    inputs = torch.cat([torch.zeros(2, 3, 4) if window is None else window, x], dim=1)
    between = torch.stack(
        [
            sum(weights["first_weight"][:, 0, tap] * inputs[:, place + tap] for tap in range(3))
            + weights["first_bias"]
            for place in range(4)
        ],
        dim=1,
    )
    y = torch.zeros(X)
    for channel in range(4):
        group = slice(0, 2) if channel < 2 else slice(2, 4)
        for t in range(3):
            taps = between[:, t : t + 2, group] * weights["second_weight"][channel].t()
            y[:, t, channel] = taps.sum((1, 2)) + weights["second_bias"][channel]
    return (y, inputs[:, -3:]) if op.keep else (y,)


def average_heads(op, weights, q, k):
    """Query heads 0 and 1 belong to kv head 0, 2 and 3 to kv head 1."""
    own = torch.stack([(q[:, :, head] + k[:, :, head // 2]) / 2 for head in range(4)], dim=2)
    pairs = [(own[:, :, 0] + own[:, :, 1]) / 2, (own[:, :, 2] + own[:, :, 3]) / 2]
    return own, torch.stack(pairs, dim=2)


REFERENCES = {
    "ConvPair": conv_pair,
    "AverageHeads": average_heads,
    "SkipLast": lambda op, weights, gates, index: (
        torch.where(index == 3, 0.0, gates),
        torch.where(index == 3, 0, index),
    ),
    "Widen": lambda op, weights, x: torch.cat([x, torch.zeros(2, 3, 3)], dim=-1),
}
