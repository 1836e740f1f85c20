"""Every op on small shapes, with what it must answer, worked out in the open.

B 2 sequences, T 3 tokens, D 4 wide; the numbers per element are those of the one table in
archcli/ops/base.py, which are Ivanov et al.'s (arXiv:2007.00072).
"""

from archcli.modules import NoScaling, Rope
from archcli.ops import (
    Activate,
    ActivateSwish,
    Add,
    AddConstant,
    Causal,
    Chunked,
    Clip,
    Combine,
    Concat,
    Dispatch,
    Einsum,
    ExtendCache,
    KeepLast,
    Linear,
    Lookup,
    MergeHeads,
    Multiply,
    Parameter,
    Positions,
    RotaryTable,
    Rotate,
    Route,
    Scale,
    Sinusoid,
    SlidingWindow,
    Softcap,
    Split,
    SplitHeads,
    Unsqueeze,
)
from ops import attend_cases, head_cases, late_cases, more_cases, norm_cases, scan_cases
from ops.case import C, Case, E, M, N, R, X, n
from ops.training_cases import training


def curve(op, flops):
    """A curve on each element of X; its gradient reads what came in, and the input or the output."""
    return Case(op, (X,), X, {E: flops * n}, {E: flops * n}, (n, n), 3 * n)


CASES = {
    "linear": Case(
        Linear("y", 5),
        (X,),
        (2, 3, 5),
        {C: 2 * n * 5},
        {C: 2 * 2 * n * 5},
        (n + 5 * 4, 6 * 5),
        2 * (n + 5 * 4 + 6 * 5),
        {"weight": (5, 4)},
    ),
    "linear-bias": Case(
        Linear("y", 5, bias=True),
        (X,),
        (2, 3, 5),
        {C: 2 * n * 5, E: 6 * 5},
        {C: 2 * 2 * n * 5, N: 6 * 5},
        (n + 5 * 4 + 6 * 5 + 5, 6 * 5 + 6 * 5),
        2 * (n + 5 * 4 + 6 * 5) + (6 * 5 + 5),
        {"weight": (5, 4), "bias": (5,)},
    ),
    "linear-borrowed": Case(
        Linear("y", 5, borrowed=True),
        (X, (5, 4)),
        (2, 3, 5),
        {C: 2 * n * 5},
        {C: 2 * 2 * n * 5},
        (n + 20, 30),
        2 * (n + 20 + 30),
    ),
    # a buffer, not a parameter: no gradient
    "linear-stored-bias": Case(
        Linear("y", 5, stored_bias=True),
        (X,),
        (2, 3, 5),
        {C: 2 * n * 5, E: 6 * 5},
        {C: 2 * 2 * n * 5},
        (n + 5 * 4 + 6 * 5 + 5, 6 * 5 + 6 * 5),
        2 * (n + 5 * 4 + 6 * 5),
        {"weight": (5, 4)},
        {"bias": (5,)},
    ),
    # backward: 6 gradients of 4, each added to the row of its id, in a table of zeros
    "embedding": Case(
        Lookup("y", 7, 4),
        ((2, 3),),
        X,
        {M: 0},
        {N: 6 * 4},
        (n + 6, n),
        (n + 6) + 7 * 4,
        {"weight": (7, 4)},
    ),
    "embedding-frozen": Case(
        Lookup("y", 7, 4, frozen=True), ((2, 3),), X, {M: 0}, {}, (n + 6, n), 0, {"weight": (7, 4)}
    ),
    "parameter": Case(Parameter("y", (3,)), (X,), (3,), weights={"weight": (3,)}),
    "contract": Case(
        Einsum("y", "bthn,hnc->bthc"),
        ((2, 3, 4, 5), (4, 5, 6)),
        (2, 3, 4, 6),
        {C: 2 * 2 * 3 * 4 * 5 * 6},
        {C: 2 * 2 * 2 * 3 * 4 * 5 * 6},
        (120 + 120, 144),
        2 * (120 + 120 + 144),
    ),
    "relu": curve(Activate("y", "relu"), 0),
    "relu2": curve(Activate("y", "relu2"), 1),
    "relu6": curve(Activate("y", "relu6"), 0),
    "hard-swish": curve(Activate("y", "hard_swish"), 3),
    "gelu": curve(Activate("y", "gelu"), 1),
    "gelu_tanh": curve(Activate("y", "gelu_tanh"), 1),
    "silu": curve(Activate("y", "silu"), 1),
    "sigmoid": curve(Activate("y", "sigmoid"), 1),
    "tanh": curve(Activate("y", "tanh"), 1),
    "log_sigmoid": curve(Activate("y", "log_sigmoid"), 1),
    "swish": curve(ActivateSwish("y", 1.5), 1),
    "swish-learnt": Case(
        ActivateSwish("y", 1.5, learnt=True),
        (X,),
        X,
        {E: n},
        {E: n, N: n},
        (n + 1, n),
        3 * n + (2 * n + 1),
        {"beta": (1,)},
    ),
    "add": Case(Add("y"), (X, X), X, {E: n}, {E: n}, (2 * n, n), 3 * n),
    "add-apart": Case(Add("y", meets=False), (X, X), X, {E: n}, {}, (2 * n, n), 0),
    # a vector of 4 for each of 3 places, the same for 2 sequences: its gradient is their sum
    "add-table": Case(Add("y"), (X, (3, 4)), X, {E: n}, {N: n}, (n + 12, n), n + 12),
    "multiply": Case(Multiply("y"), (X, X), X, {E: n}, {E: 2 * n}, (2 * n, n), 6 * n),
    # backward n products either way; of the factors', 6 sums of 4 are made
    "multiply-per-token": Case(
        Multiply("y"), (X, (2, 3, 1)), X, {E: n}, {E: 2 * n + 6 * 3}, (n + 6, n), (n + 6 + n) + (2 * n + 6)
    ),
    "scale": Case(Scale("y", 0.3), (X,), X, {E: n}, {E: n}, (n, n), 2 * n),  # the gradient reads no input
    "softcap": curve(Softcap("y", 3.0), 3),
    "clip": curve(Clip("y", 0.8), 0),
    "positions": Case(Positions("y"), ((2, 3),), (3,)),
    "shift": Case(AddConstant("y", 2), ((3,),), (3,), {E: 3}, {}, (3, 3)),
    "rotary-table": Case(
        RotaryTable("y", 4, Rope(scaling=NoScaling())),
        ((3,),),
        ((3, 2), (3, 2)),
        {E: 3 * 3 * 2},
        moved=(3, 2 * 3 * 2),
    ),
    "rotary-table-factor": Case(
        RotaryTable("y", 4, Rope(), 1.5), ((3,),), ((3, 2), (3, 2)), {E: 5 * 3 * 2}, moved=(3, 2 * 3 * 2)
    ),
    # in the dtype of X, none of whose numbers is read
    "rotary-table-like": Case(
        RotaryTable("y", 4, Rope(scaling=NoScaling())),
        ((3,), X),
        ((3, 2), (3, 2)),
        {E: 3 * 3 * 2},
        moved=(3, 2 * 3 * 2),
    ),
    "rotate": Case(
        Rotate("y"),
        ((2, 3, 5, 6), (3, 2), (3, 2)),
        (2, 3, 5, 6),
        {E: 3 * (2 * 3 * 5) * 4},  # 4 of 6 dims turn
        {E: 3 * (2 * 3 * 5) * 4},
        (2 * 3 * 5 * 4, 2 * 3 * 5 * 4),
        2 * (2 * 3 * 5 * 4),
    ),
    "rotate-interleaved": Case(
        Rotate("y", "interleaved"),
        ((2, 3, 5, 4), (3, 2), (3, 2)),
        (2, 3, 5, 4),
        {E: 3 * (2 * 3 * 5) * 4},
        {E: 3 * (2 * 3 * 5) * 4},
        (2 * 3 * 5 * 4, 2 * 3 * 5 * 4),
        2 * (2 * 3 * 5 * 4),
    ),
    "sinusoid": Case(Sinusoid("y", 4), ((3,),), (3, 4), {E: 2 * 3 * 4}, moved=(3, 3 * 4)),
    "route": Case(
        Route("y", 2),
        ((2, 3, 5),),
        ((2, 3, 2), (2, 3, 2)),
        {R: 4 * 30 + 2 * 12},  # softmax of 5 without its scale, divided by a sum: an add and a divide each
        {R: 4 * 30 + 2 * 12},
        (30, 2 * 12),
        30 + 12 + 30,
    ),
    "route-sigmoid": Case(
        Route("y", 2, "sigmoid", scale=2.5, correction=True),
        ((2, 3, 5),),
        ((2, 3, 2), (2, 3, 2)),
        {R: 1 * 30 + 30 + (2 + 1) * 12},
        {R: 1 * 30 + (2 + 1) * 12},
        (30, 2 * 12),
        30 + 12 + 30,
        buffers={"correction_bias": (5,)},
    ),
    "route-after": Case(
        Route("y", 2, "softmax_after"),
        ((2, 3, 5),),
        ((2, 3, 2), (2, 3, 2)),
        {R: 4 * 12},
        {R: 4 * 12},
        (30, 2 * 12),
        30 + 12 + 30,
    ),
    "route-groups": Case(
        Route("y", 2, normalized=False, groups=2, kept_groups=1, group_score="top2"),
        ((2, 3, 6),),
        ((2, 3, 2), (2, 3, 2)),
        {R: 4 * 36},
        {R: 4 * 36},
        (36, 2 * 12),
        36 + 12 + 36,
    ),
    # 12 copies of 4; backward each is added to its token
    "dispatch": Case(
        Dispatch("y"), (X, (2, 3, 2)), ((12, 4), (12,), (12,)), {R: 0}, {R: 48}, (48 + 12, 48), (48 + 12) + 24
    ),
    "combine": Case(
        Combine("y"),
        ((12, 4), (2, 3, 2), (12,)),
        X,
        {R: 48 + 24},  # each output times its weight, then one sum of two
        {R: 48 + 2 * 48},
        (48 + 12 + 12, 24),
        (24 + 12 + 48) + (48 + 24 + 12),
    ),
    "split-heads": Case(SplitHeads("y", 2), (X,), (2, 3, 2, 2)),
    "split-heads-first": Case(SplitHeads("y", 2, axis=0), ((6, 4),), (2, 3, 4)),
    "merge-heads": Case(MergeHeads("y"), ((2, 3, 2, 5),), (2, 3, 10)),
    "split": Case(Split("y", (1, 3)), (X,), ((2, 3, 1), (2, 3, 3))),
    "concat": Case(
        Concat("y"), ((2, 3, 4, 5), (2, 3, 4, 2)), (2, 3, 4, 7), {M: 0}, {M: 0}, (120 + 48, 168), 168 + 168
    ),
    # one head of 2 for four: backward 12 sums of 4
    "concat-one-head": Case(
        Concat("y"),
        ((2, 3, 4, 5), (2, 3, 1, 2)),
        (2, 3, 4, 7),
        {M: 0},
        {M: 12 * 3},
        (120 + 12, 168),
        168 + 132,
    ),
    "unsqueeze": Case(Unsqueeze("y"), (X,), (2, 3, 1, 4)),
    "keep-last": Case(KeepLast("y"), (X,), (2, 1, 4)),
    "cache": Case(
        ExtendCache("y", Causal()),
        ((2, 3, 1, 4), (2, 5, 1, 4)),
        ((2, 8, 1, 4), (2, 8, 1, 4)),
        {M: 0},
        {M: 0},
        (24, 24),
        48,
        cached=2 * 8 * 4,
    ),
    # a window of 4 keeps 4; 3 new tokens see at most the 3 before them
    "cache-window": Case(
        ExtendCache("y", SlidingWindow(4)),
        ((2, 3, 1, 4), (2, 5, 1, 4)),
        ((2, 6, 1, 4), (2, 4, 1, 4)),
        {M: 0},
        {M: 0},
        (24, 24),
        48,
        cached=2 * 4 * 4,
    ),
    "cache-empty": Case(
        ExtendCache("y", Chunked(2)),
        ((2, 3, 1, 4),),
        ((2, 3, 1, 4), (2, 2, 1, 4)),
        {M: 0},
        {M: 0},
        (24, 24),
        48,
        cached=2 * 2 * 4,
    ),
}
for cases in (attend_cases, scan_cases, late_cases, more_cases, head_cases, norm_cases):
    CASES |= cases.CASES
CASES |= training(attend_cases.CASES["attend"])
