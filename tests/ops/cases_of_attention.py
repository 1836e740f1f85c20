"""Cases of the ops that attend and that know positions."""

from archcli.modules import NoScaling, Rope
from archcli.ops import (
    Attend,
    Causal,
    Chunked,
    FeatureMap,
    Full,
    LinearAttend,
    Positions,
    RelativeBias,
    RelativeKeys,
    RotaryTable,
    Rotate,
    Shift,
    Sinusoid,
    SlidingWindow,
    Temper,
)
from ops.case import C, Case, E, M, N, X, n, pointwise

# attention: 1 sequence, 4 query heads, 2 kv heads, d 2, e 5; 3 new tokens
Q, K, V = (1, 3, 4, 2), (1, 3, 2, 2), (1, 3, 2, 5)
PAIRS, ALL = 4 * (1 + 2 + 3), 4 * 3 * 3
q, k, v, out = 3 * 4 * 2, 3 * 2 * 2, 3 * 2 * 5, 3 * 4 * 5
SCORES_MOVED, MIX_MOVED = (q + k, ALL), (ALL + v, out)
ATTEND_BACK = (k + ALL + q) + (q + ALL + k) + (2 * ALL + ALL) + (v + out + ALL) + (ALL + out + v)
# the last of 3 cached and 1 new token, a window of 2: query 3 sees keys 2 and 3, which are all that are left
SEEN = 4 * 1 * 2

PHI = (2, 3, 2, 5)

CASES = {
    "attend": Case(
        Attend("y", Causal(), 0.5),
        (Q, K, V, (3,)),
        (1, 3, 4, 5),
        {C: 2 * PAIRS * (2 + 5), N: 5 * PAIRS},
        {C: 2 * 2 * PAIRS * (2 + 5), N: 5 * PAIRS},
        (SCORES_MOVED[0] + ALL + MIX_MOVED[0], SCORES_MOVED[1] + ALL + MIX_MOVED[1]),
        ATTEND_BACK,
        dense={C: 2 * ALL * (2 + 5), N: 5 * ALL},
    ),
    "attend-mqa": Case(
        Attend("y", SlidingWindow(2), 0.5),
        (Q, (1, 3, 1, 2), (1, 3, 1, 5), (3,)),
        (1, 3, 4, 5),
        {C: 2 * 4 * (1 + 2 + 2) * (2 + 5), N: 5 * 4 * (1 + 2 + 2)},
        {C: 2 * 2 * 4 * (1 + 2 + 2) * (2 + 5), N: 5 * 4 * (1 + 2 + 2)},
        (q + k // 2 + ALL + ALL + v // 2, ALL + ALL + out),
        ATTEND_BACK - k - v,
        dense={C: 2 * ALL * (2 + 5), N: 5 * ALL},
    ),
    "attend-everything": Case(
        Attend("y", Chunked(2), 0.5, softcap=3.0, alibi=8.0, extras=("sinks",)),
        (Q, K, V, (3,), (4,)),
        (1, 3, 4, 5),
        # chunks of 2: query 0 sees 1 key, 1 sees 2, 2 sees 1
        {C: 2 * 16 * (2 + 5), E: (3 + 1) * 16, N: 5 * 16},
        {C: 2 * 2 * 16 * (2 + 5), E: 3 * 16, N: 5 * 16},
        (SCORES_MOVED[0] + 3 * ALL + 4 + MIX_MOVED[0], SCORES_MOVED[1] + 3 * ALL + MIX_MOVED[1]),
        ATTEND_BACK + 2 * ALL,
        dense={C: 2 * ALL * (2 + 5), E: (3 + 1) * ALL, N: 5 * ALL},
    ),
    "attend-relu": Case(
        Attend("y", Full(), 0.5, extras=("bias",), relu=True),
        (Q, K, V, (3,), (1, 4, 3, 3)),
        (1, 3, 4, 5),
        {C: 2 * ALL * (2 + 5), E: 2 * ALL},  # adding the bias, dividing by the number of keys; the maximum is free
        {C: 2 * 2 * ALL * (2 + 5), E: ALL},
        (SCORES_MOVED[0] + 2 * ALL + MIX_MOVED[0], SCORES_MOVED[1] + 2 * ALL + MIX_MOVED[1]),
        ATTEND_BACK,
    ),
    "attend-decode": Case(
        Attend("y", SlidingWindow(2), 0.5, past=3),
        ((1, 1, 4, 2), (1, 2, 2, 2), (1, 2, 2, 5), (1,)),
        (1, 1, 4, 5),
        {C: 2 * SEEN * (2 + 5), N: 5 * SEEN},
        {C: 2 * 2 * SEEN * (2 + 5), N: 5 * SEEN},
        (8 + 8 + SEEN + SEEN + 20, SEEN + SEEN + 20),
        2 * (8 + 8 + SEEN) + 3 * SEEN + 2 * (SEEN + 20 + 20),
    ),
    "temper": pointwise(Temper("y", 0.1, 2), 1, positions=(3,)),
    "positions": Case(Positions("y"), ((2, 3),), (3,)),
    "shift": Case(Shift("y", 2), ((3,),), (3,), {E: 3}, {E: 3}, (3, 3), 6),
    "rotary-table": Case(RotaryTable("y", 4, Rope(scaling=NoScaling())), ((3,),), ((3, 2), (3, 2)), {E: 3 * 3 * 2}, moved=(3, 2 * 3 * 2)),
    "rotary-table-factor": Case(RotaryTable("y", 4, Rope(), 1.5), ((3,),), ((3, 2), (3, 2)), {E: 5 * 3 * 2}, moved=(3, 2 * 3 * 2)),
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
    "feature-elu": Case(FeatureMap("y", "elu", 4, query=True), (X,), X, {E: 2 * n}, {E: 2 * n}, (n, n), 2 * n),
    "feature-softmax": Case(
        FeatureMap("y", "softmax", 5, query=True),
        (X,),
        (2, 3, 5),
        {E: n + 3 * 30, C: 2 * n * 5, N: 2 * n},  # scale; project; square and sum; subtract, exp, divide
        {E: n + 3 * 30, C: 2 * n * 5},  # the projection is not trained
        (n + (n + 20) + n + 30, n + 30 + 6 + 30),
        2 * n + (30 + 20 + n) + 2 * 30,
        buffers={"projection": (5, 4)},
    ),
    # 2 sequences, 3 tokens, 2 heads, 5 features, values 4: 240 elements of running sums
    "linear-attend": Case(
        LinearAttend("y", causal=True, keep=True),
        (PHI, PHI, (2, 3, 2, 4), (2, 2, 5, 4), (2, 2, 5)),
        ((2, 3, 2, 4), (2, 2, 5, 4), (2, 2, 5)),
        {C: 2 * 480, E: 240 + 48, N: 3 * 60},
        {C: 4 * 480, E: 48},
        ((60 + 48) + 240 + (60 + 240) + 2 * 60 + (48 + 12), 240 + 240 + 48 + 12 + 48),
        2 * (60 + 48 + 240) + 2 * (60 + 240 + 48) + 2 * 48,
        cached=2 * 2 * 5 * (4 + 1),
    ),
    "linear-attend-full": Case(
        LinearAttend("y", causal=False, keep=False),
        (PHI, PHI, (2, 3, 2, 4)),
        ((2, 3, 2, 4),),
        {C: 2 * 480, E: 48, N: 3 * 60},
        {C: 4 * 480, E: 48},
        ((60 + 48) + 80 + (60 + 80) + 2 * 60 + (48 + 12), 80 + 80 + 48 + 12 + 48),
        2 * (60 + 48 + 80) + 2 * (60 + 80 + 48) + 2 * 48,
    ),
    "relative-bias": Case(
        RelativeBias("y", 8, 4, 5, 16, bidirectional=False),
        ((3,),),
        (1, 4, 3, 5),
        {M: 0},
        {M: 0},
        (60 + 15, 60),
        60 + 32,
        {"weight": (8, 4)},
    ),
    "relative-bias-both": Case(
        RelativeBias("y", 8, 4, 40, 16, bidirectional=True),
        ((40,),),
        (1, 4, 40, 40),
        {M: 0},
        {M: 0},
        (6400 + 1600, 6400),
        6400 + 32,
        {"weight": (8, 4)},
    ),
    # 2 sequences, 3 queries of 4 heads, width 5, against 2*2 + 1 distances
    "relative-keys": Case(
        RelativeKeys("y", 2, 3, 0.5),
        ((2, 3, 4, 5), (3,)),
        (2, 4, 3, 3),
        {C: 2 * 120 * 5, E: 120, M: 0},
        {C: 2 * 2 * 120 * 5, E: 120, M: 0},
        ((120 + 25) + 120 + 72, 120 + 120 + 72),
        2 * (120 + 25 + 120) + 2 * 120 + (72 + 120),
        {"weight": (5, 5)},
    ),
}
