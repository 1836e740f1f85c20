"""Cases and references of scans without heads, each cost as the lines of a ledger.

Class, FLOPs, elements read, elements written.
"""

import torch

from archcli.ops import (
    WKV,
    BlockDiagonal,
    DiagonalScan,
    GatedDecay,
    Interpolate,
    SelectiveScan,
    TokenShift,
)
from ops.case import C, E, M, N, X, ledger, n


def selective(op, inputs, *, n, shared, rates, width, states, before=0, cached=0):
    """A case of n elements of x, `shared` of B and of C, `rates` of A_log and `width` of D.

    So many elements of states are written, and so many of earlier ones read.
    """
    x, _, b, _, *_ = inputs
    sums = n * b[-1]
    forward = [
        (E, n, n, 0),  # softplus of dt
        (E, n, n, 0),  # dt x
        (C, 2 * sums, shared, 0),  # times B
        (E, 3 * sums + rates, rates + before, states),  # e^A_log; times dt, exp, times the state before
        (C, 2 * sums, shared, 0),  # times C
        (E, 2 * n, width, n),  # D x is added
    ]
    backward = [
        (E, n, 2 * n, n),  # of dt, through softplus
        (E, n, 2 * n, n),  # of x, times dt
        (E, n, 2 * n, n),  # of dt, times x
        (C, 2 * sums, shared + states, n),  # of dt x
        (C, 2 * sums, n + states, shared),  # of B
        (E, 2 * sums, 2 * states, states),  # of the states, backwards: decay, add
        (N, 4 * sums, 2 * states + rates, n),  # of dt: times state, decay and rate, summed
        (N, 2 * sums + rates, n + rates, rates),  # of A_log: times dt, summed, times the rate
        (C, 2 * sums, shared + n, states),  # of the states
        (C, 2 * sums, states + n, shared),  # of C
        (E, n, n + width, n),  # of x, times D
        (N, 2 * n, 2 * n, width),  # of D
    ]
    sizes = x[2:]
    return ledger(
        op,
        inputs,
        (x, (x[0], *sizes, b[-1])) if op.keep else (x,),
        forward,
        backward,
        weights={"A_log": (*sizes, b[-1]), "D": sizes},
        cached=cached,
    )


# 2 sequences, 3 tokens, 4 channels (24 elements), states of 5 (30 elements of B and of C)
S, STATE = (2, 3, 5), (2, 4, 5)
OF_CHANNELS = {"n": n, "shared": 2 * 3 * 5, "rates": 4 * 5, "width": 4}
ONE, EVERY = 2 * 4 * 5, n * 5  # the states after the one chunk of each sequence; after every token
# 2 heads of 3 channels, each with 5 elements of B and C
HEADED, SHARED, HEADED_STATE = (2, 3, 2, 3), (2, 3, 2, 5), (2, 2, 3, 5)
OF_HEADS = {"n": 2 * 3 * 6, "shared": 2 * 3 * 2 * 5, "rates": 6 * 5, "width": 6}
W = (2, 3, 6)
SUMS = 3 * 2 * 4  # three for each of 4 channels, of both sequences

WKV_BACK = [
    (N, n, n, 4),  # of u: summed
    (E, 8 * n, 3 * n, 0),  # of the sums: the lines below, with what is read and written of states
    (E, 7 * n, 4 * n, n),  # of k
    (E, 3 * n, 2 * n, n),  # of v
    (N, 5 * n + 4, 4 * n, 4),  # of w
]


def wkv_back(states):
    return [
        (line[0], line[1], line[2] + states, line[3] + states) if i == 1 else line
        for i, line in enumerate(WKV_BACK)
    ]


CASES = {
    "selective-scan": selective(
        SelectiveScan("y", "chunked", False), (X, X, S, S), **OF_CHANNELS, states=ONE
    ),
    "selective-scan-cached": selective(
        SelectiveScan("y", "chunked", True),
        (X, X, S, S, STATE),
        **OF_CHANNELS,
        states=ONE,
        before=ONE,
        cached=ONE,
    ),
    # the state is read and written with every token
    "selective-scan-recurrent": selective(
        SelectiveScan("y", "recurrent", True),
        (X, X, S, S, STATE),
        **OF_CHANNELS,
        states=EVERY,
        before=EVERY,
        cached=ONE,
    ),
    "selective-scan-heads": selective(
        SelectiveScan("y", "chunked", True),
        (HEADED, HEADED, SHARED, SHARED),
        **OF_HEADS,
        states=2 * 6 * 5,
        cached=2 * 6 * 5,
    ),
    "diagonal-scan": ledger(
        DiagonalScan("y", "chunked", False),
        (X, X),
        (X,),
        [(E, 2 * n, 2 * n, n)],
        [(E, 2 * n, 2 * n, n), (E, n, 2 * n, n)],  # of b, backwards; of a, times the state before
    ),
    "diagonal-scan-cached": ledger(
        DiagonalScan("y", "recurrent", True),
        (X, X, (2, 4)),
        (X, (2, 4)),
        [(E, 2 * n, 2 * n + 8, n + 8)],
        [(E, 2 * n, 2 * n, n), (E, n, 2 * n, n)],
        cached=8,
    ),
    "gated-decay": ledger(
        GatedDecay("y"),
        (X, X, (3,)),
        (X, X),
        [
            (E, 2 * n + 2 * 4, n + 4, n),  # 8 softplus of each channel; times r, exp
            (E, 4 * n, 2 * n, n),  # twice the logarithm, exp less 1, root, times x
        ],
        [
            (E, n, n + 4, n),  # of r
            (N, 2 * n + 4, 2 * n, 4),  # of Lambda
            (E, n, 2 * n, n),  # of x
            (E, 5 * n, 4 * n, n),  # of the logarithm, through both results
        ],
        weights={"Lambda": (4,)},
    ),
    "block-diagonal": ledger(
        BlockDiagonal("y", 2, 6, bias=True),
        (X,),
        W,
        [(C, 2 * n * 3, n + 2 * 3 * 2, 36), (E, 36, 36 + 6, 36)],
        [
            (C, 2 * n * 3, 12 + 36, n),  # of x
            (C, 2 * n * 3, n + 36, 12),  # of the weight
            (N, 36, 36, 6),  # of the bias
        ],
        weights={"weight": (2, 3, 2), "bias": (2, 3)},
    ),
    "block-diagonal-bare": ledger(
        BlockDiagonal("y", 2, 4),
        (X,),
        X,
        [(C, 2 * n * 2, n + 8, n)],
        [(C, 2 * n * 2, 8 + n, n), (C, 2 * n * 2, n + n, 8)],
        weights={"weight": (2, 2, 2)},
    ),
    "token-shift": ledger(TokenShift("y", False), (X,), (X,), [(M, 0, n, n)], [(M, 0, n, n)]),
    "token-shift-cached": ledger(
        TokenShift("y", True),
        (X, (2, 4)),
        (X, (2, 4)),
        [(M, 0, n, n), (M, 0, 8, 8)],
        [(M, 0, n, n)],
        cached=8,
    ),
    "interpolate": ledger(
        Interpolate("y"),
        (X, X),
        X,
        [(E, 3 * n, 2 * n + 4, n)],  # a - b, times w, plus b
        [(E, n, n + 4, n), (E, n, n + 4, n), (N, 3 * n, 3 * n, 4)],
        weights={"weight": (4,)},
    ),
    "wkv": ledger(
        WKV("y", "chunked", False),
        (X, X),
        (X,),
        [(E, 11 * n, 2 * n + 4, n), (E, 10 * n + 4, 4, SUMS)],
        wkv_back(SUMS),
        weights={"decay": (4,), "first": (4,)},
    ),
    "wkv-cached": ledger(
        WKV("y", "recurrent", True),
        (X, X, (2, 4), (2, 4), (2, 4)),
        (X, (2, 4), (2, 4), (2, 4)),
        [(E, 11 * n, 2 * n + 4, n), (E, 10 * n + 4, 4 + 3 * n, 3 * n)],
        wkv_back(3 * n),
        weights={"decay": (4,), "first": (4,)},
        cached=SUMS,
    ),
}
UNTRAINED = {"SelectiveScan": {4}, "DiagonalScan": {2}, "TokenShift": {1}, "WKV": {2, 3, 4}}
"""Inputs that hold what a cache held."""

SHAPED = {("GatedDecay", 0): "positive", ("GatedDecay", 2): "count_up", ("WKV", 3): "positive"}
"""Arguments that are no normal numbers: gates and sums above zero, positions."""


def selective_scan(op, weights, x, dt, b, c, state=None):
    """One token after another, with heads or without."""
    step = torch.log1p(torch.exp(dt))
    h = torch.zeros(*x.shape[:1], *weights["A_log"].shape) if state is None else state.clone()
    y = torch.zeros_like(x)
    for t in range(x.shape[1]):
        h = torch.exp(-torch.exp(weights["A_log"]) * step[:, t, ..., None]) * h
        h = h + (step * x)[:, t, ..., None] * b[:, t, ..., None, :]
        y[:, t] = (h * c[:, t, ..., None, :]).sum(-1) + weights["D"] * x[:, t]
    return (y, h) if op.keep else (y,)


def diagonal_scan(op, weights, a, b, state=None):
    h, y = torch.zeros(2, 4) if state is None else state, torch.zeros(X)
    for t in range(3):
        h = y[:, t] = a[:, t] * h + b[:, t]
    return (y, h) if op.keep else (y,)


def gated_decay(op, weights, r, x, positions):
    a = torch.exp(-8 * torch.log1p(torch.exp(weights["Lambda"])) * r)
    share = torch.sqrt(1 - a**2)
    share[:, positions == 0] = 1
    return a, share * x


def block_diagonal(op, weights, x):
    pieces = [torch.einsum("bti,oi->bto", x[..., 2 * j : 2 * j + 2], weights["weight"][j]) for j in (0, 1)]
    if op.bias:
        pieces = [piece + weights["bias"][j] for j, piece in enumerate(pieces)]
    return torch.cat(pieces, dim=-1)


def token_shift(op, weights, x, last=None):
    y = torch.zeros(X)
    y[:, 1:] = x[:, :2]
    y[:, 0] = 0 if last is None else last
    return (y, x[:, 2]) if op.keep else (y,)


def interpolate(op, weights, a, b):
    return a * weights["weight"] + b * (1 - weights["weight"])


def wkv(op, weights, k, v, num=None, den=None, top=None):
    """The sums themselves, which do not overflow here; what is kept is scaled as the op scales it."""
    w, u = torch.exp(-torch.exp(weights["decay"])), weights["first"]
    above = torch.zeros(2, 4) if num is None else num * torch.exp(top)
    below = torch.zeros(2, 4) if num is None else den * torch.exp(top)
    y, best = torch.zeros(X), torch.full((2, 4), -1e38) if top is None else top
    for t in range(3):
        now = torch.exp(k[:, t] + u)
        y[:, t] = (above + now * v[:, t]) / (below + now)
        above, below = w * above + torch.exp(k[:, t]) * v[:, t], w * below + torch.exp(k[:, t])
        best = torch.maximum(best + torch.log(w), k[:, t])
    return (y, above / torch.exp(best), below / torch.exp(best), best) if op.keep else (y,)


REFERENCES = {
    "SelectiveScan": selective_scan,
    "DiagonalScan": diagonal_scan,
    "GatedDecay": gated_decay,
    "BlockDiagonal": block_diagonal,
    "TokenShift": token_shift,
    "Interpolate": interpolate,
    "WKV": wkv,
}
