"""Cases and references of recurrent layers, each cost as the lines of a ledger.

Class, FLOPs (of the pairs up to the query, and of all pairs of a chunk where these differ), elements read,
elements written.
"""

import torch

from archcli.ops import CausalConv1d, HeadSkip, Normalize, StateScan, StepSize
from ops.case import C, E, M, N, X, ledger, n

# 2 sequences, 3 tokens, 4 channels, 2 taps
WINDOW = (2, 2, 4)
CONV = [(C, 2 * n * 2, n + 8, n), (E, n, n + 4, n)]  # 2 taps for each of 4 channels; their bias
CONV_BACK = [
    (C, 2 * n * 2, 8 + n, n),  # of x
    (C, 2 * n * 2, n + n, 8),  # of the taps
    (N, n, n, 4),  # of the bias: a sum
]
KEPT = (M, 0, 16, 16)  # the window of 2 inputs is copied

# 2 sequences, 3 tokens in chunks of 2: 2 chunks, of 3 and 1 pairs of 4 and 1;
# 1 group, 2 heads; keys of 4 (24 elements), values of 5 (60), 12 decays
Q, V, A = (2, 3, 1, 4), (2, 3, 2, 5), (2, 3, 2)
STATE = (2, 2, 4, 5)
PAIRS, BLOCKS = 2 * (3 + 1), 2 * (4 + 1)
STATES = 2 * 2 * 2 * 4 * 5  # of both sequences, chunks and heads
CHUNKED = [
    (C, 2 * 4 * PAIRS, 2 * 4 * BLOCKS, 24 + 24, 0),  # q k^T once per group
    (E, 12, 12, 0),  # cumulative decays
    (E, 3 * 2 * PAIRS, 3 * 2 * BLOCKS, 0, 0),  # of both heads: subtract, exp, multiply
    (C, 2 * 10 * PAIRS, 2 * 10 * BLOCKS, 60, 0),  # scores times v
    (E, 60 + 2 * 12, 0, 0),  # v, times exp of what is left of the chunk
    (C, 2 * 60 * 4, 0, STATES),  # k v^T
    (E, 2 * STATES, 0, 0),  # the state before decays and is added
    (C, 2 * 60 * 4, 0, 0),  # q S
    (E, 2 * 60 + 12, 0, 60),  # times exp of what has passed, added
]
CHUNKED_BACK = [
    (E, 60, 60 + 12, 60),  # of q S: times exp
    (N, 2 * 60, 2 * 60, 12),  # of exp
    (C, 480, STATES + 60, 24),  # of q, through S
    (C, 480, 480 // 3, 24 + 60, STATES),  # of S: a run needs none of the state it is given
    (E, 2 * STATES, 2 * STATES, STATES),  # of the states, backwards
    (N, 2 * STATES, 2 * STATES, 0),  # of their decay
    (C, 480, 480 * 2 // 3, 60 + STATES, 24),  # of k: no token reads the last chunk's state
    (C, 480, 480 * 2 // 3, 24 + STATES, 60),  # of v, likewise
    (E, 60, 60 + 12, 60),  # of v, times exp
    (N, 2 * 60, 2 * 60, 12),  # of exp
    (C, 2 * 10 * PAIRS, 2 * 10 * BLOCKS, 60 + 60, 2 * BLOCKS),  # of the scores
    (C, 2 * 10 * PAIRS, 2 * 10 * BLOCKS, 2 * BLOCKS + 60, 60),  # of v
    (E, 2 * 2 * PAIRS - PAIRS, 2 * 2 * BLOCKS, BLOCKS),  # of q k^T: times the decay, summed over the heads
    (N, 3 * 2 * PAIRS, 2 * 2 * BLOCKS, 12),  # of the decays: times the result, summed along both tokens
    (E, 12, 12, 12),  # of the cumulative sum
    (C, 2 * 4 * PAIRS, 2 * 4 * BLOCKS, 24 + BLOCKS, 24),  # of q
    (C, 2 * 4 * PAIRS, 2 * 4 * BLOCKS, 24 + BLOCKS, 24),  # of k
]
TOKENS = 2 * 3 * 2 * 4 * 5  # elements of a state per token
RECURRENT = [
    (C, 2 * TOKENS, 24 + 60, TOKENS),  # k v^T is added, the state written
    (E, TOKENS, TOKENS + 12, 0),  # the state before is read and decays
    (C, 2 * TOKENS, 24, 60),  # q S
]
RECURRENT_BACK = [
    (C, 2 * TOKENS, TOKENS + 60, 24),  # of q
    (C, 2 * TOKENS, 24 + 60, TOKENS),  # of S
    (E, 2 * TOKENS, 2 * TOKENS, TOKENS),  # of the states, backwards
    (N, 2 * TOKENS, 2 * TOKENS, 0),  # of their decay
    (C, 2 * TOKENS, 60 + TOKENS, 24),  # of k
    (C, 2 * TOKENS, 24 + TOKENS, 60),  # of v
]
UNREACHED = 480 - 480 // 3 + 2 * (480 - 480 * 2 // 3)

CASES = {
    "causal-conv": ledger(
        CausalConv1d("y", 2, False),
        (X,),
        (X,),
        CONV,
        CONV_BACK,
        weights={"weight": (4, 1, 2), "bias": (4,)},
    ),
    "causal-conv-cached": ledger(
        CausalConv1d("y", 2, True, bias=False),
        (X, WINDOW),
        (X, WINDOW),
        [CONV[0], KEPT],
        CONV_BACK[:2],
        weights={"weight": (4, 1, 2)},
        cached=16,
    ),
    "state-scan": ledger(
        StateScan("y", 2, "chunked", False), (Q, Q, V, A), (V,), CHUNKED, CHUNKED_BACK, unreached=UNREACHED
    ),
    "state-scan-cached": ledger(
        StateScan("y", 2, "chunked", True),
        (Q, Q, V, A, STATE),
        (V, STATE),
        CHUNKED,
        CHUNKED_BACK,
        cached=80,
        unreached=UNREACHED,
    ),
    "state-scan-recurrent": ledger(
        StateScan("y", 2, "recurrent", True),
        (Q, Q, V, A, STATE),
        (V, STATE),
        RECURRENT,
        RECURRENT_BACK,
        cached=80,
    ),
    "step-size": ledger(
        StepSize("y"),
        (A,),
        (A, A),
        [
            (E, 12, 12 + 2, 12),  # the bias
            (E, 12, 12, 12),  # softplus
            (E, 12 + 2, 12 + 2, 12),  # times -exp of A_log
        ],
        [
            (N, 12, 12, 2),  # of the bias
            (E, 12, 12 + 12, 12),  # of softplus
            (E, 12, 12 + 2, 12),  # of dt
            (N, 2 * 12 + 2, 2 * 12, 2),  # of A_log
        ],
        weights={"dt_bias": (2,), "A_log": (2,)},
    ),
    "head-skip": ledger(
        HeadSkip("y"),
        (V, V),
        V,
        [(E, 2 * 60, 2 * 60 + 2, 60)],
        [(E, 60, 60 + 2, 60), (N, 2 * 60, 2 * 60, 2)],
        weights={"weight": (2,)},
    ),
    "normalize-groups": ledger(
        Normalize("y", 1e-5, groups=2),
        (X,),
        X,
        [(N, 4 * n, n + 4, n)],
        [(N, 6 * n, 2 * n + 4, n), (N, 3 * n, 2 * n, 4)],
        weights={"weight": (4,)},
    ),
}
UNTRAINED = {"CausalConv1d": {1}, "StateScan": {4}}
"""Inputs that hold what a cache held."""


def causal_conv(op, weights, x, window=None):
    """One token after another, one tap after another."""
    before = torch.zeros(2, 2, 4) if window is None else window
    inputs = torch.cat([before, x], dim=1)
    y = torch.zeros(X)
    for t in range(3):
        for tap in range(2):
            y[:, t] += weights["weight"][:, 0, tap] * inputs[:, t + 1 + tap]
    y = y + weights.get("bias", 0)
    return (y, inputs[:, -2:]) if op.keep else (y,)


def state_scan(op, weights, q, k, v, decay, state=None):
    """One token after another."""
    sums = torch.zeros(STATE) if state is None else state.clone()
    y = torch.zeros(V)
    for t in range(3):
        for head in range(2):
            sums[:, head] = decay[:, t, head, None, None].exp() * sums[:, head]
            sums[:, head] += k[:, t, 0, :, None] * v[:, t, head, None, :]
            y[:, t, head] = (sums[:, head] * q[:, t, 0, :, None]).sum(1)
    return (y, sums) if op.keep else (y,)


def step_size(op, weights, x):
    step = torch.log1p(torch.exp(x + weights["dt_bias"]))
    return step, -torch.exp(weights["A_log"]) * step


def head_skip(op, weights, y, x):
    return torch.stack([y[..., h, :] + weights["weight"][h] * x[..., h, :] for h in range(2)], dim=-2)


REFERENCES = {
    "CausalConv1d": causal_conv,
    "StateScan": state_scan,
    "StepSize": step_size,
    "HeadSkip": head_skip,
}
