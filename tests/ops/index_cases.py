"""Cases and references of an indexer, and of attention to the keys that it chooses.

A line is a step on whole tensors: its class, its FLOPs over the pairs that are not later, the same over all
pairs, the elements it reads and those it writes.
"""

from itertools import product

import torch

from archcli.ops import Attend, ClosedBlocks, GateKeys, IndexBlocks, IndexTopK, TopBlocks, TopK
from ops.attend_cases import CAUSAL_OF_FOUR, SIX, attend
from ops.case import C, E, N, R, ledger

# 2 sequences, 3 index heads, d 5; 4 tokens after 3 cached ones
INDEX = ((2, 4, 3, 5), (2, 7, 1, 5), (2, 4, 3), (4,))
AFTER_THREE = 4 + 5 + 6 + 7
WITHOUT_WEIGHTS = (*INDEX[:2], INDEX[3])
# 1 new token after 6 cached ones
ONE = ((2, 1, 3, 5), (2, 7, 1, 5), (2, 1, 3), (1,))


def index(op, inputs, pairs, chosen):
    """Scores of every index head, their maximum with 0, the sum over heads, the choice."""
    (batch, new, heads, d), (_, seen, _, _), *_ = inputs
    pairs, every = batch * pairs, batch * new * seen
    lines = [
        (C, 2 * heads * d * pairs, 2 * heads * d * every, batch * (new * heads + seen) * d, heads * every),
        (E, 0, 0, heads * every, heads * every),
        (C, 2 * heads * pairs, 2 * heads * every, heads * every + batch * new * heads, every),
        (R, 0, 0, every, batch * new * chosen),
    ]
    return ledger(op, inputs, (batch, new, chosen), lines, [], operands=0)


def index_blocks(op, inputs, pairs, blocks, chosen):
    """Scores of every index head, the largest of each block, the choice."""
    (batch, new, heads, d), (_, seen, _, _), *_ = inputs
    pairs, every = batch * pairs, batch * new * seen
    of_blocks = batch * new * heads * blocks
    lines = [
        (C, 2 * heads * d * pairs, 2 * heads * d * every, batch * (new * heads + seen) * d, heads * every),
        (E, 0, 0, heads * every, of_blocks),
        (R, 0, 0, of_blocks, batch * new * heads * chosen),
    ]
    return ledger(op, inputs, (batch, new, heads, chosen), lines, [], operands=0)


# 2 sequences, 2 kv heads of 4 query heads
GATES, GATES_OF_ONE = ((2, 7, 2), (4,)), ((2, 7, 2), (1,))


def gate_keys(op, inputs, pairs):
    """The choice; backward a sum for each gate over the queries and heads that it is chosen for."""
    (batch, seen, kv_heads), (new,) = inputs
    of_heads, n = batch * 4 * new * seen, batch * seen * kv_heads
    back = [(N, batch * 4 * pairs, of_heads, of_heads, n)]
    return ledger(op, inputs, (batch, 4, new, seen), [(R, 0, 0, n, of_heads)], back)


def selected(pairs, every, chosen):
    """Reading which keys each query is given."""
    return (R, 0, 0, chosen, 0), []


CASES = {
    "index-top-k": index(IndexTopK("y", 4, past=3), INDEX, AFTER_THREE, 4),
    "index-top-k-decode": index(IndexTopK("y", 3, past=6), ONE, 7, 3),
    "index-top-k-of-few": index(IndexTopK("y", 9, past=6), ONE, 7, 7),
    # 7 tokens are 4 blocks of 2, or 3 of 3
    "index-top-blocks": index_blocks(IndexBlocks("y", 2, 2, past=3), WITHOUT_WEIGHTS, AFTER_THREE, 4, 2),
    "index-wider-blocks": index_blocks(IndexBlocks("y", 2, 3, past=3), WITHOUT_WEIGHTS, AFTER_THREE, 3, 2),
    "index-top-blocks-decode": index_blocks(
        IndexBlocks("y", 9, 3, past=6), ((2, 1, 3, 5), (2, 7, 1, 5), (1,)), 7, 3, 3
    ),
    # 4 keys at most, after 3 cached ones
    "gate-keys": gate_keys(GateKeys("y", 4, 4, past=3), GATES, 4 + 4 + 4 + 4),
    "gate-keys-of-few": gate_keys(GateKeys("y", 4, 5, past=3), GATES, 4 + 5 + 5 + 5),
    "gate-keys-decode": gate_keys(GateKeys("y", 4, 3, past=6), GATES_OF_ONE, 3),
    "gate-keys-all": gate_keys(GateKeys("y", 4, 9, past=6), GATES_OF_ONE, 7),
    # 2 keys at most: 1 + 2 + 2 + 2
    "attend-selected": attend(
        Attend("y", TopK(2), 0.5, extras=("selected",)),
        SIX,
        1 + 2 + 2 + 2,
        selected(0, 0, 2 * 4 * 2),
        extra=((2, 4, 2),),
    ),
    # 2 of 3 blocks of 2: of the third the query's own and one other; 2 index heads for 2 query heads each
    "attend-blocks": attend(
        Attend("y", TopBlocks(2, 2, 2), 0.5, extras=("selected",)),
        ((2, 6, 4, 3), (2, 6, 2, 3), (2, 6, 2, 5), (6,)),
        1 + 2 + (2 + 1) + (2 + 2) + (2 + 1) + (2 + 2),
        selected(0, 0, 2 * 6 * 2 * 2),
        extra=((2, 6, 2, 2),),
    ),
    # as many keys as there are: none is left out
    "attend-selected-all": attend(
        Attend("y", TopK(4), 0.5, extras=("selected",)),
        SIX,
        CAUSAL_OF_FOUR,
        selected(0, 0, 2 * 4 * 4),
        extra=((2, 4, 4),),
    ),
}


def choose(op, weights, q, keys, w, positions):
    """The indices of each query's largest sums, one by one."""
    batch, new, heads, _ = q.shape
    seen = keys.shape[1]
    first = int(positions[-1]) + 1 - seen
    rows = []
    for b in range(batch):
        for t in range(new):
            sums = []
            for s in range(seen):
                dots = [float(q[b, t, j] @ keys[b, s, 0]) for j in range(heads)]
                later = first + s > int(positions[t])
                if isinstance(op.mask, ClosedBlocks):
                    later = (s + 1) * op.mask.rate > int(positions[t]) + 1
                total = sum(float(w[b, t, j]) * max(dot, 0.0) for j, dot in enumerate(dots))
                sums.append(-float("inf") if later else total)
            rows.append(sorted(range(seen), key=lambda s: -sums[s])[: op.top_k])
    return torch.tensor(rows).view(batch, new, -1)


def choose_blocks(op, weights, q, keys, positions):
    """The blocks of each query's and index head's largest score, the nearest ones before all others."""
    batch, new, heads, _ = q.shape
    seen = keys.shape[1]
    rows = []
    for b, t, j in product(range(batch), range(new), range(heads)):
        at = int(positions[t])
        best = {}
        for s in range(seen):
            score = float(q[b, t, j] @ keys[b, s, 0]) if s <= at else -float("inf")
            near = 0 <= at // op.block - s // op.block < op.local
            block = s // op.block
            best[block] = max(best.get(block, -float("inf")), float("inf") if near else score)
        rows.append(sorted(best, key=lambda block: -best[block])[: op.top_k])
    return torch.tensor(rows).view(batch, new, heads, -1)


def gated(op, weights, gates, positions):
    """The gates of each query's largest among those not later, one by one."""
    batch, seen, kv_heads = gates.shape
    first = int(positions[-1]) + 1 - seen
    out = torch.full((batch, op.heads, len(positions), seen), -float("inf"))
    for b, h, t in product(range(batch), range(op.heads), range(len(positions))):
        of_head = gates[b, :, h // (op.heads // kv_heads)]
        visible = range(int(positions[t]) + 1 - first)
        for s in sorted(visible, key=lambda s: -float(of_head[s]))[: op.top_k]:
            out[b, h, t, s] = of_head[s]
    return out


REFERENCES = {"IndexTopK": choose, "IndexBlocks": choose_blocks, "GateKeys": gated}
