"""Cases of attention: every mask, score and normalizer, each cost as the lines of a ledger.

A line is a step on whole tensors: its class, its FLOPs over the pairs the mask allows, the same over all
pairs, the elements it reads and those it writes.
"""

from archcli.ops import (
    Attend,
    Bidirectional,
    BlockSparse,
    Causal,
    Chunked,
    Dilated,
    Fixed,
    SlidingWindow,
    Strided,
    WindowAndGlobal,
)
from ops.case import C, E, N, ledger

# 1 sequence, 4 query heads, 2 kv heads, d 2, e 5; 3 new tokens
GROUPED = ((1, 3, 4, 2), (1, 3, 2, 2), (1, 3, 2, 5), (3,))
# 2 sequences, 3 heads, d 2, e 5; 4 tokens
SIX = ((2, 4, 3, 2), (2, 4, 3, 2), (2, 4, 3, 5), (4,))
CAUSAL = 1 + 2 + 3
CAUSAL_OF_FOUR = 1 + 2 + 3 + 4


def attend(op, inputs, pairs, *between, softmax=5, added=0, extra=(), back=None):
    """Scores, what happens `between`, the softmax with `added` logits of its own, and the mix.

    The softmax takes so many FLOPs a pair.

    `pairs` are those of one sequence and head; `between` are (forward line, backward lines).
    """
    (batch, new, heads, d), (_, seen, kv_heads, _), (*_, e), _ = inputs
    pairs, every = batch * heads * pairs, batch * heads * new * seen
    q, k, v, out = (
        batch * new * heads * d,
        batch * seen * kv_heads * d,
        batch * seen * kv_heads * e,
        batch * new * heads * e,
    )
    sinks = heads if added else 0
    normalized = (N, 5 * pairs + 4 * added, 5 * every + 4 * added, every + sinks, every + added)
    if back is None:
        back = [(N, 5 * pairs + 4 * added, 5 * every + 4 * added, 2 * every, every + added)]
    return ledger(
        op,
        (*inputs, *extra),
        (batch, new, heads, e),
        [
            (C, 2 * d * pairs, 2 * d * every, q + k, every),
            *[forward for forward, _ in between],
            *([normalized] if softmax else []),
            (C, 2 * e * pairs, 2 * e * every, every + v, out),
        ],
        [
            (C, 2 * d * pairs, 2 * d * every, every + k, q),
            (C, 2 * d * pairs, 2 * d * every, every + q, k),
            *[line for _, lines in between for line in lines],
            *back,
            (C, 2 * e * pairs, 2 * e * every, out + v, every),
            (C, 2 * e * pairs, 2 * e * every, out + every, v),
        ],
    )


def relu(pairs, every):
    """max costs nothing, the division by the number of visible keys 1.

    Backward the same of gradient and saved output.
    """
    return [((E, pairs, every, every, every), [(E, pairs, every, 2 * every, every)])]


def added_bias(pairs, every, elements, total=()):
    """One addition a pair; the scores get the gradient as it is."""
    return (E, pairs, every, every + elements, every), total


ALIBI_OF_SIX = ((E, 6 * CAUSAL_OF_FOUR, 6 * 16, 6 * 16, 6 * 16), [])
# a sink: one more logit for each of 2 x 4 queries of 3 heads, unscaled; its gradient a sum per head
SINKS = {"added": 24}
SUM_OF_SINKS = (N, 24, 24, 24, 3)
SHARED = (1, 3, 4, 4)

CASES = {
    "attend": attend(Attend("y", Causal(), 0.5), GROUPED, CAUSAL),
    "attend-mqa": attend(
        Attend("y", SlidingWindow(2), 0.5), (GROUPED[0], (1, 3, 1, 2), (1, 3, 1, 5), (3,)), 1 + 2 + 2
    ),
    "attend-full": attend(Attend("y", Bidirectional(), 0.5), GROUPED, 3 * 3),
    "attend-six": attend(Attend("y", Causal(), 0.5), SIX, CAUSAL_OF_FOUR),
    # one key to either side: 2 + 3 + 3 + 2
    "attend-band": attend(Attend("y", WindowAndGlobal(1, 0), 0.5), SIX, 10),
    # token 0 sees 4, token 1 (0, 1, 2), token 2 all but none is out of reach (0, 1, 2, 3), token 3 (0, 2, 3)
    "attend-band-and-global": attend(Attend("y", WindowAndGlobal(1, 1), 0.5), SIX, 4 + 3 + 4 + 3),
    # every second key back, two in all: 1 + 1 + 2 + 2
    "attend-dilated": attend(Attend("y", Dilated(2, 2), 0.5), SIX, 6),
    # every third, two in all: 1 + 1 + 1 + 2
    "attend-dilated-3": attend(Attend("y", Dilated(2, 3), 0.5), SIX, 5),
    # the two newest and every second: 1 + 2 + 3 (2, 1, 0) + 3 (3, 2, 1)
    "attend-strided": attend(Attend("y", Strided(2), 0.5), SIX, 9),
    # tokens by themselves, the newest and every second, counted from 1: 1 + 1 + 2 (2, 1) + 2 (3, 1)
    "attend-block-sparse": attend(Attend("y", BlockSparse(1, 1, 2), 0.5), SIX, 6),
    # blocks of 3 whose last 2 are seen by all that follow: 1 + 2 + 3, then 1 and 2
    "attend-fixed": attend(Attend("y", Fixed(3, 2), 0.5), SIX, 9),
    # the last of 3 cached and 1 new token, a window of 2: query 3 sees keys 2 and 3, which are all that are
    # left
    "attend-decode": attend(
        Attend("y", SlidingWindow(2), 0.5, past=3), ((1, 1, 4, 2), (1, 2, 2, 2), (1, 2, 2, 5), (1,)), 2
    ),
    # chunks of 2: query 0 sees 1 key, 1 sees 2, 2 sees 1; tanh(s/c) c is 3, the gradient reads it and what
    # comes in; 12 sinks
    "attend-everything": attend(
        Attend("y", Chunked(2), 0.5, softcap=3.0, alibi=8.0, extras=("sinks",)),
        GROUPED,
        4,
        ((E, 3 * 16, 3 * 36, 36, 36), [(E, 3 * 16, 3 * 36, 2 * 36, 36)]),
        ((E, 16, 36, 36, 36), [(N, 12, 12, 12, 4)]),
        added=12,
        extra=((4,),),
    ),
    "attend-alibi-of-three": attend(Attend("y", Causal(), 0.5, alibi=8.0), SIX, CAUSAL_OF_FOUR, ALIBI_OF_SIX),
    "attend-alibi-factor": attend(
        Attend("y", Causal(), 0.5, alibi=4.0, alibi_factor=0.3), SIX, CAUSAL_OF_FOUR, ALIBI_OF_SIX
    ),
    # an encoder: keys on either side lose by their distance
    "attend-alibi-full": attend(
        Attend("y", Bidirectional(), 0.5, alibi=8.0), GROUPED, 9, ((E, 4 * 9, 4 * 9, 4 * 9, 4 * 9), [])
    ),
    "attend-own-bias": attend(
        Attend("y", Causal(), 0.5, extras=("bias",)),
        SIX,
        CAUSAL_OF_FOUR,
        added_bias(60, 96, 2 * 48),
        extra=((2, 3, 4, 4),),
    ),
    # tokens of one span see each other; pairs are those of the mask
    "attend-spans": attend(Attend("y", Causal(), 0.5, extras=("spans",)), SIX, CAUSAL_OF_FOUR, extra=((4,),)),
    # what all sequences share is 48 elements, and gets the sum of their gradients
    "attend-shared-bias": attend(
        Attend("y", Causal(), 0.5, extras=("shared_bias",)),
        SIX,
        CAUSAL_OF_FOUR,
        added_bias(60, 96, 48, [(N, 60, 96, 96, 48)]),
        extra=(SHARED,),
    ),
    "attend-sinks-and-bias": attend(
        Attend("y", Causal(), 0.5, extras=("sinks", "shared_bias")),
        SIX,
        CAUSAL_OF_FOUR,
        added_bias(60, 96, 48, [(N, 60, 96, 96, 48), SUM_OF_SINKS]),
        extra=((3,), SHARED),
        **SINKS,
    ),
    "attend-bias-alone-and-shared": attend(
        Attend("y", Bidirectional(), 0.5, extras=("bias", "shared_bias")),
        SIX,
        16,
        added_bias(96, 96, 2 * 48),
        added_bias(96, 96, 48, [(N, 96, 96, 96, 48)]),
        extra=((2, 3, 4, 4), SHARED),
    ),
    "attend-relu": attend(
        Attend("y", Causal(), 0.5, relu=True), SIX, CAUSAL_OF_FOUR, *relu(60, 96), softmax=0, back=[]
    ),
    "attend-relu-full": attend(
        Attend("y", Bidirectional(), 0.5, relu=True), SIX, 16, *relu(96, 96), softmax=0, back=[]
    ),
    "attend-relu-window": attend(
        Attend("y", SlidingWindow(2), 0.5, relu=True),
        SIX,
        1 + 2 + 2 + 2,
        *relu(6 * 7, 96),
        softmax=0,
        back=[],
    ),
    "attend-relu-chunk": attend(
        Attend("y", Chunked(3), 0.5, relu=True), SIX, 1 + 2 + 3 + 1, *relu(6 * 7, 96), softmax=0, back=[]
    ),
    "attend-relu-band": attend(
        Attend("y", WindowAndGlobal(1, 1), 0.5, relu=True), SIX, 14, *relu(6 * 14, 96), softmax=0, back=[]
    ),
    # the query at position 3 sees the two keys that are left
    "attend-relu-decode": attend(
        Attend("y", SlidingWindow(2), 0.5, past=3, relu=True),
        ((1, 1, 4, 2), (1, 2, 2, 2), (1, 2, 2, 5), (1,)),
        2,
        *relu(8, 8),
        softmax=0,
        back=[],
    ),
}
