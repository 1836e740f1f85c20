"""Cases and references of constant and bounded decays and of the mLSTM, each cost as the lines of a ledger.

Class, FLOPs (of the pairs up to the query, and of all pairs of a chunk where these differ), elements read,
elements written.
"""

import math

import torch

from archcli.ops import BoundedLogDecay, HeadDecay, MLSTMScan
from ops.case import C, Case, E, N, ledger

# 2 sequences, 3 tokens in chunks of 2, 2 heads: 12 vectors; keys of 4 (48 elements), values of 5 (60)
K, V, GATE = (2, 3, 2, 4), (2, 3, 2, 5), (2, 3, 2)
STATES = ((2, 2, 4, 5), (2, 2, 4), (2, 2))
PRODUCT = 2 * 12 * 4 * 5
PAIRS, BLOCKS = 4 * (3 + 1), 4 * (4 + 1)  # of 2 chunks of each of 4 heads
SUMS, TOTALS = 4 * 2 * 4 * 5, 4 * 2 * 4  # C and n of every chunk
CHUNKED = [
    (E, 12, 12, 12),  # the logarithm of sigmoid(f)
    (E, 12, 12, 0),  # cumulative
    (C, 2 * 4 * PAIRS, 2 * 4 * BLOCKS, 48 + 48, 0),  # q k^T
    # the difference of two sums, plus i, minus m, exp, times the score
    (E, 5 * PAIRS, 5 * BLOCKS, 24, 0),
    (N, PAIRS, BLOCKS, 0, 0),  # sums of the scores
    (C, 2 * 5 * PAIRS, 2 * 5 * BLOCKS, 60, 0),  # times v
    (E, 48 + 3 * 12, 48 + 24, 0),  # k times its gate: add, subtract, exp
    (C, PRODUCT, 0, SUMS + TOTALS),  # k v^T
    (N, 48, 0, 0),  # the sum of k
    (E, 2 * (SUMS + TOTALS), 0, 0),  # C and n before decay, and are added
    (C, PRODUCT, 0, 0),  # q C
    (C, 2 * 48, 0, 0),  # q n
    (E, 2 * (60 + 12) + 3 * 12, 0, 0),  # both times their gate, added
    (E, 3 * 12, 0, 0),  # exp(-m), its sign, eps
    (E, 60, 0, 60),  # the quotient
]
OF_ALL_BACK = [
    (E, 60, 60 + 12, 60),  # of what is divided
    (N, 2 * 60, 2 * 60 + 12, 12),  # of the divisor
    (E, 48, 48 + 12, 48),  # of k, times its gate
    (N, 2 * 48, 2 * 48, 12),  # of the gate
    (E, 12, 12 + 12, 12),  # of f
]
CHUNKED_BACK = [
    *OF_ALL_BACK,
    (E, 60 + 12, 60 + 12 + 12, 60 + 12),  # of q C and q n, times their gate
    (N, 2 * (60 + 12), 2 * (60 + 12), 12),  # of the gate
    (C, 2 * 48, 12 + TOTALS, 48),  # of q, through n
    (C, 2 * 48, 2 * 48 // 3, 48 + 12, TOTALS),  # of n: a run needs none of the state it is given
    (C, PRODUCT, 60 + SUMS, 48),  # of q, through C
    (C, PRODUCT, PRODUCT // 3, 48 + 60, SUMS),  # of C, likewise
    (E, 2 * (SUMS + TOTALS), 2 * (SUMS + TOTALS), SUMS + TOTALS),  # of the states, backwards
    (N, 2 * (SUMS + TOTALS), 2 * (SUMS + TOTALS), 0),  # of their decay
    (C, PRODUCT, PRODUCT * 2 // 3, 60 + SUMS, 48),  # of k: no token reads the last chunk's state
    (C, PRODUCT, PRODUCT * 2 // 3, 48 + SUMS, 60),  # of v, likewise
    (C, 2 * 5 * PAIRS, 2 * 5 * BLOCKS, 60 + 60, BLOCKS),  # of the scores
    (C, 2 * 5 * PAIRS, 2 * 5 * BLOCKS, BLOCKS + 60, 60),  # of v
    (E, PAIRS, 2 * BLOCKS, BLOCKS),  # of q k^T
    (N, 3 * PAIRS, 2 * BLOCKS, 2 * 12),  # of the gates: times the result, summed along both tokens
    (C, 2 * 4 * PAIRS, 2 * 4 * BLOCKS, 48 + BLOCKS, 48),  # of q
    (C, 2 * 4 * PAIRS, 2 * 4 * BLOCKS, 48 + BLOCKS, 48),  # of k
    (E, 12, 12, 12),  # of the cumulative sum
]
UNREACHED = (PRODUCT + 2 * 48) * 2 // 3 + 2 * PRODUCT // 3
EVERY = 12 * 4 * (5 + 1)  # C and n of every token
STEPS = [
    CHUNKED[0],
    (E, 48 + 3 * 12, 48 + 24, 0),  # k times its gate
    (C, PRODUCT, 60, EVERY),  # k v^T is added, the state written
    (E, 2 * EVERY, EVERY, 0),  # the state before is read and decays
    (C, PRODUCT, 48, 0),  # q C
    (C, 2 * 48, 0, 0),  # q n
    *CHUNKED[-2:],
]
STEPS_BACK = [
    *OF_ALL_BACK,
    (C, 2 * 48, 12 + 48, 48),  # of q, through n
    (C, 2 * 48, 12 + 48, 48),  # of n
    (C, PRODUCT, 60 + 240, 48),  # of q, through C
    (C, PRODUCT, 60 + 48, 240),  # of C
    (E, 2 * EVERY, 2 * EVERY, EVERY),  # of the states, backwards
    (N, 2 * EVERY, 2 * EVERY, 0),  # of their decay
    (C, PRODUCT, 60 + 240, 48),  # of k
    (C, PRODUCT, 48 + 240, 60),  # of v
]

CASES = {
    "head-decay-slopes": Case(HeadDecay("y", "slopes", 1, 3), (V,), GATE),
    "head-decay-retention": Case(HeadDecay("y", "retention"), (V,), GATE),
    "bounded-log-decay": ledger(
        BoundedLogDecay("y", -2.0),
        (V,),
        V,
        [
            (E, 60, 60 + 10, 60),  # the bias of each channel
            (E, 60 + 2, 60 + 2, 60),  # times exp of A_log
            (E, 60, 60, 60),  # the sigmoid
            (E, 60, 60, 60),  # times the bound
        ],
        [
            (N, 60, 60, 10),  # of the bias
            (E, 60, 60 + 2, 60),  # of x
            (N, 2 * 60 + 2, 2 * 60, 2),  # of A_log
            (E, 60, 2 * 60, 60),  # of the sigmoid
            (E, 60, 60, 60),  # of the bound
        ],
        weights={"dt_bias": (10,), "A_log": (2,)},
    ),
    "mlstm-scan": ledger(
        MLSTMScan("y", 2, "chunked", False),
        (K, K, V, GATE, GATE),
        (V,),
        CHUNKED,
        CHUNKED_BACK,
        unreached=UNREACHED,
    ),
    "mlstm-scan-cached": ledger(
        MLSTMScan("y", 2, "chunked", True),
        (K, K, V, GATE, GATE, *STATES),
        (V, *STATES),
        CHUNKED,
        CHUNKED_BACK,
        cached=2 * 2 * (4 * 5 + 4 + 1),
        unreached=UNREACHED,
    ),
    "mlstm-scan-recurrent": ledger(
        MLSTMScan("y", 2, "recurrent", True),
        (K, K, V, GATE, GATE, *STATES),
        (V, *STATES),
        STEPS,
        STEPS_BACK,
        cached=2 * 2 * (4 * 5 + 4 + 1),
    ),
}
UNTRAINED = {"MLSTMScan": {5, 6, 7}}
"""Inputs that hold what a cache held."""


def head_decay(op, weights, v):
    """Layer 1 of 3: half of the slopes 1/16 and 1/256; or 31/32 and 63/64."""
    if op.kind == "retention":
        logs = [math.log(31 / 32), math.log(63 / 64)]
    else:
        logs = [-slope * (1 - 1 / 2.00001 + 1e-5) for slope in (1 / 16, 1 / 256)]
    return torch.tensor(logs).expand(GATE)


def bounded_log_decay(op, weights, x):
    by_head = [
        -2
        / (1 + torch.exp(-weights["A_log"][h].exp() * (x[:, :, h] + weights["dt_bias"][5 * h : 5 * h + 5])))
        for h in range(2)
    ]
    return torch.stack(by_head, dim=2)


def mlstm_scan(op, weights, q, k, v, i, f, *state):
    """One token after another, each gate as it is written, without m but where m is 0 at first."""
    c, n, m = state or [torch.zeros(shape) for shape in STATES]
    c, n = (x.double() * m.double().exp().view(2, 2, *[1] * (x.dim() - 2)) for x in (c, n))
    largest, y = m.double(), torch.zeros(V)
    for t in range(3):
        forget, take = torch.sigmoid(f[:, t].double()), i[:, t].double().exp()
        largest = torch.maximum(largest + forget.log(), i[:, t].double())
        c = forget[..., None, None] * c + take[..., None, None] * k[:, t, :, :, None] * v[:, t, :, None, :]
        n = forget[..., None] * n + take[..., None] * k[:, t]
        divisor = (n * q[:, t]).sum(-1).abs().clamp(min=1) + op.eps * largest.exp()
        y[:, t] = (c * q[:, t, :, :, None]).sum(-2) / divisor[..., None]
    scale = (-largest).exp()
    return (y, c * scale[..., None, None], n * scale[..., None], largest) if op.keep else (y,)


REFERENCES = {"BoundedLogDecay": bounded_log_decay, "HeadDecay": head_decay, "MLSTMScan": mlstm_scan}
