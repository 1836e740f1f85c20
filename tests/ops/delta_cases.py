"""Cases and references of the gated delta rule, each cost as the lines of a ledger.

Class, FLOPs (of the pairs up to the query, and of all pairs of a chunk where these differ), elements read,
elements written.
"""

import torch

from archcli.ops import DeltaScan, L2Normalize, LogDecay
from ops.case import C, E, N, X, ledger, n

# 2 sequences, 4 tokens in chunks of 3, 1 head of keys and 2 of values: 16 rows, of 4 sequences and heads;
# keys of 4 (32 elements, 64 for all heads), values of 5 (80), 16 decays or 64, 16 learning rates
Q, V, B = (2, 4, 1, 4), (2, 4, 2, 5), (2, 4, 2)
STATE = (2, 2, 4, 5)
PAIRS, STRICT, BLOCKS = 4 * (6 + 1), 4 * 3, 4 * (9 + 1)
STATES = 2 * 80  # of both chunks
INPUTS = 2 * 32 + 80 + 16
ONE = 2 * 64 * 5  # a product of every row with a state
LEARNT = 2 * (16 - 12) * 4 * 5  # of the rows after the first chunk
HANDED_ON = 2 * (16 - 4) * 4 * 5  # of the rows before the last
CUBES = 4 * (3**3 + 1)


def times(count, factors, extra=0):
    """Lines of a product of elements and factors, which take so many FLOPs to make, and of its gradients."""
    ahead = (E, count + extra, 0, 0)
    back = [(E, count, count + factors, count), (N, 2 * count - factors + extra, 2 * count, factors)]
    return ahead, back


def product(pairs, width, left, right, out):
    """Lines of a product for the pairs of a chunk, and of its gradients."""
    costs = (C, 2 * width * pairs, 2 * width * BLOCKS)
    return (*costs, 0, 0), [(*costs, right + out, left), (*costs, left + out, right)]


def of_state():
    """Lines of a product with states; a run needs no gradient of the one it starts from."""
    return (C, ONE, 0, 0), [(C, ONE, STATES + 80, 64), (C, ONE, LEARNT, 64 + 80, STATES)]


def chunked(gates, decays, decays_back, more):
    """Lines of the chunked form, with this many decays, and those of what is done for pairs of tokens."""
    steps = [
        times(64, 16),  # b k
        product(STRICT, 4, 64, 64, BLOCKS),  # b k k^T
        product(PAIRS, 4, 64, 64, BLOCKS),  # q k^T
        times(80, 16),  # b v
        product(PAIRS, 5, BLOCKS, 80, 80),  # M b v
        times(64, gates, gates),  # b k a
        product(PAIRS, 4, BLOCKS, 64, 64),  # M b k a
        of_state(),  # that times S
        times(64, gates),  # q a
        of_state(),  # q a S
        product(PAIRS, 5, BLOCKS, 80, 80),  # scores times U
        times(64, gates, 2 * gates),  # k a_Q / a
        (
            (C, ONE, 0, 0),  # k^T U; no token reads what the last chunk adds
            [(C, ONE, HANDED_ON, 80 + STATES, 64), (C, ONE, HANDED_ON, 64 + STATES, 80)],
        ),
        *more,
    ]
    forward = [
        (E, gates, INPUTS + gates, 0),  # cumulative decays
        *decays,
        (E, 4 * 2, 0, 0),  # substitution: 3 * 2 * 1 / 3 per chunk of 3
        (E, 80, 0, 0),  # less what the state predicts
        (E, 80, 0, 0),  # both outputs are added
        (E, 2 * STATES + 2 * 4 * gates // 16, 80, 80 + STATES),  # the state before decays and is added
        *(ahead for ahead, _ in steps),
    ]
    backward = [
        (E, gates, gates, gates),  # of the cumulative sum
        *decays_back,
        (E, 4 * 3 * 3 * 2, 2 * BLOCKS, BLOCKS),  # of the substitution: solved once more, with 3 right sides
        (C, 4 * (3**3 - 3) // 3, 2 * CUBES, 2 * BLOCKS, BLOCKS),  # and times M^T
        (E, 2 * STATES, 2 * STATES, STATES),  # of the states, backwards
        (N, 2 * STATES, 2 * STATES, gates),  # of their decay
        *(line for _, lines in steps for line in lines),
    ]
    return forward, backward


HEAD = chunked(
    16,
    [(E, 2 * PAIRS, 2 * BLOCKS, 0, 0)],  # of pairs: subtract, exp
    [(N, 3 * PAIRS, 2 * BLOCKS, 16)],  # times exp, summed along both tokens
    [times(STRICT, STRICT), times(PAIRS, PAIRS)],  # both products of pairs, times exp
)
CHANNEL = chunked(
    64,
    [(E, 3 * PAIRS * 4, 3 * BLOCKS * 4, 0, 0)],  # of pairs and channels: subtract, exp, times k
    [(N, 2 * PAIRS * 4, 2 * BLOCKS * 4, 64), (N, 3 * PAIRS * 4, 2 * BLOCKS * 4, 64)],
    [],
)
UNREACHED = 2 * (ONE - LEARNT) + 2 * (ONE - HANDED_ON) - 2 * CUBES
"""Gradients that a run does not reach, less the substitution's, which is a product backwards alone."""

TOKENS = 16 * 4 * 5  # elements of a state for every token
RECURRENT = [
    (E, TOKENS + 16, INPUTS + 16 + TOKENS, 0),  # the state before is read and decays
    (C, 2 * TOKENS, 0, 0),  # k S
    (E, 2 * 80, 0, 0),  # v less that, times b
    (C, 2 * TOKENS, 0, TOKENS),  # k^T times that is added, the state written
    (C, 2 * TOKENS, 0, 80),  # q S
]
RECURRENT_BACK = [
    (E, TOKENS, TOKENS + 16, TOKENS),  # of the states, backwards
    (N, 2 * TOKENS, 2 * TOKENS, 16),  # of their decay
    (C, 2 * TOKENS, TOKENS + 80, 64),  # of k, in k S
    (C, 2 * TOKENS, 64 + 80, TOKENS),  # of S
    (E, 80, 80 + 16, 80),  # of v
    (N, 2 * 80 - 16, 2 * 80, 16),  # of b
    (C, 2 * TOKENS, 80 + TOKENS, 64),  # of k, in what is added
    (C, 2 * TOKENS, 64 + TOKENS, 80),  # of the corrected value
    (C, 2 * TOKENS, TOKENS + 80, 64),  # of q
    (C, 2 * TOKENS, 64 + 80, TOKENS),  # of S
]


def gates(count, each, heads=2):
    """Lines of log decays of so many elements, `each` of which share no bias, and of their gradients."""
    forward = [
        (E, count, count + each, count),  # the bias
        (E, count, count, count),  # softplus
        (E, count + heads, count + heads, count),  # times -exp of A_log
    ]
    backward = [
        (N, count, count, each),  # of the bias
        (E, count, 2 * count, count),  # of softplus
        (E, count, count + heads, count),  # of x
        (N, 2 * count + heads, 2 * count, heads),  # of A_log
    ]
    return forward, backward


CASES = {
    "delta-scan": ledger(
        DeltaScan("y", 3, "chunked", False), (Q, Q, V, B, B), (V,), *HEAD, unreached=UNREACHED
    ),
    "delta-scan-channels": ledger(
        DeltaScan("y", 3, "chunked", True),
        (Q, Q, V, (2, 4, 2, 4), B, STATE),
        (V, STATE),
        *CHANNEL,
        cached=80,
        unreached=UNREACHED,
    ),
    "delta-scan-recurrent": ledger(
        DeltaScan("y", 3, "recurrent", True),
        (Q, Q, V, B, B, STATE),
        (V, STATE),
        RECURRENT,
        RECURRENT_BACK,
        cached=80,
    ),
    "log-decay": ledger(LogDecay("y"), (B,), B, *gates(16, 2), weights={"dt_bias": (2,), "A_log": (2,)}),
    "log-decay-channels": ledger(
        LogDecay("y"),
        ((2, 4, 2, 3),),
        (2, 4, 2, 3),
        *gates(48, 6),
        weights={"dt_bias": (6,), "A_log": (1, 1, 2, 1)},
    ),
    "l2-normalize": ledger(
        L2Normalize("y"),
        (X,),
        X,
        [(N, 3 * n + 2 * 6, n, n)],  # square, sum, divide; add eps and take the root of 6
        [(N, 5 * n, 2 * n + 6, n)],  # g . y, times y, subtracted, divided
    ),
}
UNTRAINED = {"DeltaScan": {5}}
"""Inputs that hold what a cache held."""


def delta_scan(op, weights, q, k, v, decay, *rest):
    """One token after another, one head after another."""
    beta, *state = rest
    sums = state[0].clone() if state else torch.zeros(STATE)
    y = torch.zeros(V)
    for t in range(4):
        for head in range(2):
            factors = decay[:, t, head, None] if decay.dim() == 3 else decay[:, t, head]
            sums[:, head] = factors.exp()[..., None] * sums[:, head]
            key = k[:, t, 0, :, None]
            error = v[:, t, head] - (sums[:, head] * key).sum(1)
            sums[:, head] += beta[:, t, head, None, None] * key * error[:, None]
            y[:, t, head] = (sums[:, head] * q[:, t, 0, :, None]).sum(1)
    return (y, sums) if op.keep else (y,)


def log_decay(op, weights, x):
    step = torch.log1p(torch.exp(x + weights["dt_bias"].reshape(x.shape[2:])))
    rate = weights["A_log"].reshape(-1).exp()
    return torch.stack([-rate[h] * step[:, :, h] for h in range(2)], dim=2)


def l2_normalize(op, weights, x):
    return x / ((x**2).sum(-1, keepdim=True) + op.eps).sqrt()


REFERENCES = {"DeltaScan": delta_scan, "LogDecay": log_decay, "L2Normalize": l2_normalize}
