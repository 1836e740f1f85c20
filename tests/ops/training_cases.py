"""Cases and references of the ops that do something else in training.

FLOPs and elements are those of training, forward and backward.
"""

import math
from dataclasses import replace

from archcli.ops import BatchNormalize, Dropout
from ops.case import Case, E, N, X, n

D = 4  # channels, of n / D tokens


def training(attend):
    """Each op; and the causal attention of cases.py with a share of its probabilities dropped."""
    pairs, every = 4 * (1 + 2 + 3), 4 * 3 * 3
    return {
        # the result and the mask are written, the mask and the result's gradient read again
        "dropout": Case(Dropout("y", 0.5), (X,), X, {E: n}, {E: n}, (n, 2 * n), 2 * n + n),
        # statistics: sum, square, sum; then subtract, divide, weigh, shift; mean, variance, weight and bias
        # of each channel are read
        "batch-norm": Case(
            BatchNormalize("y", 1e-5, 0.1),
            (X,),
            X,
            {N: 3 * n + 4 * n},
            {N: 9 * n + 4 * n},
            (n + (n + 4 * D), 2 * D + n),
            (2 * n + 2 * D + n) + (2 * n + 2 * D),
            {"weight": (D,), "bias": (D,)},
            {"running_mean": (D,), "running_var": (D,), "num_batches_tracked": ()},
        ),
        # one multiplication per probability more; mask and result are written, the mask is read again
        "attend-dropout": replace(
            attend,
            op=replace(attend.op, dropout=0.5),
            flops=attend.flops | {N: (5 + 1) * pairs},
            moved=(attend.moved[0], attend.moved[1] + 2 * every),
            moved_back=attend.moved_back + every,
            dense=attend.dense | {N: (5 + 1) * every},
        ),
    }


def batch_norm(op, weights, x):
    out = x.clone()
    for channel in range(D):
        mean, var, weight, bias = (
            float(weights[name][channel]) for name in ("running_mean", "running_var", "weight", "bias")
        )
        for b in range(2):
            for t in range(3):
                out[b, t, channel] = (float(x[b, t, channel]) - mean) / math.sqrt(
                    var + op.eps
                ) * weight + bias
    return out


REFERENCES = {"Dropout": lambda op, weights, x: x, "BatchNormalize": batch_norm}
"""Outside of training, where nothing is drawn."""
