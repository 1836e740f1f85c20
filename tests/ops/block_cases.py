"""Cases and references of keys of blocks: compression, positions, their cache; gates that mix streams.

A line is a step on whole tensors: its class, its FLOPs, the elements it reads and those it writes.
"""

import math

import torch

from archcli.ops import (
    BlockBias,
    BlockPositions,
    Causal,
    ClosedBlocks,
    CompressTokens,
    ExtendBlocks,
    IndexTopK,
    JoinBlocks,
    MixingGates,
    Rotate,
    RouteByToken,
    SumBlocks,
)
from ops.case import C, Case, E, M, N, R, ledger


def compress(op, inputs, shape, closed, kept):
    """The places of a block added, a softmax of gates without a scale, a product and a sum.

    `closed` numbers are in blocks that close, `kept` are those left for the next call.
    """
    width, out = inputs[0][-1], math.prod(shape[0])
    forward = [
        (E, closed, closed + op.rate * width, closed),
        (N, 4 * closed, closed, closed),
        (E, closed + (closed - out), 2 * closed, out),
        *([(M, 0, kept, kept)] if op.keep else []),
    ]
    back = [
        (N, closed, closed, op.rate * width),  # of a place, summed over blocks
        (N, 4 * closed, 2 * closed, closed),
        (E, closed, closed + out, closed),
        (E, closed, closed + out, closed),
    ]
    weights = {"places": (op.rate, width)}
    return ledger(op, inputs, shape, forward, back, weights=weights, cached=kept)


def mixing(n, tokens, iterations):
    """Gates of n streams, and the matrix whose columns, then rows and columns are divided by their sums."""
    z, gates, matrix = tokens * (2 * n + n * n), tokens * n, tokens * n * n
    divisions = 1 + 2 * (iterations - 1)
    forward = [
        (
            E,
            2 * z + 2 * gates + gates + gates,
            z + 3 + 2 * n + n * n,
            z,
        ),  # scale, base; sigmoids; eps; factor
        (N, 4 * matrix + matrix + divisions * (matrix + matrix), matrix, matrix),
    ]
    back = [
        (E, z + 2 * gates + gates, z + 3, z),
        (N, 2 * z, 2 * z, 3),
        (N, z, z, 2 * n + n * n),
        (N, 4 * matrix + divisions * 4 * matrix, 2 * matrix, matrix),
    ]
    weights = {"scale": (3,), "base": (2 * n + n * n,)}
    return ledger(
        MixingGates("y", n, 2.0, 0.1, iterations),
        ((2, 3, 2 * n + n * n),),
        ((2, 3, n), (2, 3, n), (2, 3, n, n)),
        forward,
        back,
        weights=weights,
    )


# 4 tokens after 3 cached ones, blocks of 2 tokens
BLOCKS = 4 // 2 + 5 // 2 + 6 // 2 + 7 // 2

CASES = {
    # 7 tokens: 2 blocks of 3, the last token is left
    "compress": compress(CompressTokens("y", 3, False, False), ((2, 7, 4),) * 2, ((2, 2, 4),), 2 * 6 * 4, 0),
    "compress-keep": compress(
        CompressTokens("y", 3, False, True),
        ((2, 5, 4), (2, 5, 4), (2, 2, 4), (2, 2, 4)),
        ((2, 2, 4), (2, 1, 4), (2, 1, 4)),
        2 * 6 * 4,
        2 * 2 * 4,
    ),
    "compress-none": compress(
        CompressTokens("y", 3, False, True),
        ((2, 1, 4), (2, 1, 4), (2, 1, 4), (2, 1, 4)),
        ((2, 0, 4), (2, 2, 4), (2, 2, 4)),
        0,
        2 * 2 * 2 * 4,
    ),
    # two halves of 4 channels each
    "compress-overlap": compress(
        CompressTokens("y", 3, True, False), ((2, 7, 8),) * 2, ((2, 2, 4),), 2 * 6 * 8, 0
    ),
    "compress-overlap-keep": compress(
        CompressTokens("y", 3, True, True),
        ((2, 5, 8), (2, 5, 8), (2, 2, 8), (2, 2, 8), (2, 3, 4), (2, 3, 4)),
        ((2, 2, 4), (2, 1, 8), (2, 1, 8), (2, 3, 4), (2, 3, 4)),
        2 * 6 * 8,
        2 * 2 * 8 + 2 * 2 * 3 * 4,
    ),
    "block-positions": Case(BlockPositions("y", 3, 2), ((4,),), (2,)),
    "extend-blocks": ledger(
        ExtendBlocks("y", Causal(), rate=3, seen=11),
        ((2, 1, 1, 4), (2, 2, 1, 4)),
        ((2, 3, 1, 4), (2, 3, 1, 4)),
        [(M, 0, 8, 8)],
        [(M, 0, 8, 8)],
        cached=2 * 3 * 4,
    ),
    "join-blocks": ledger(
        JoinBlocks("y"),
        ((2, 5, 1, 4), (2, 2, 1, 4)),
        (2, 7, 1, 4),
        [(M, 0, 40 + 16, 40 + 16)],
        [(M, 0, 40, 40), (M, 0, 16, 16)],
    ),
    # of 7 tokens two blocks, of 3 and of 4: 2 + 3 additions in each of 4 channels of 2 sequences
    "sum-blocks": ledger(
        SumBlocks("y", 3), ((2, 7, 4),), (2, 2, 4), [(E, (2 + 3) * 4 * 2, 56, 16)], [(M, 0, 16, 56)]
    ),
    "sum-blocks-none": ledger(SumBlocks("y", 3), ((2, 2, 4),), (2, 0, 4), [(E, 0, 16, 0)], [(M, 0, 0, 16)]),
    # 7 queries and 2 blocks, 2 heads: 28 entries of the table by 14 distances
    "block-bias": Case(
        BlockBias("y", 8, 2, 2, 8, True, 3),
        ((7,),),
        (1, 2, 7, 2),
        {M: 0},
        {N: 28},
        (28 + 14, 28),
        (28 + 14) + 16,
        {"weight": (8, 2)},
    ),
    "mixing-gates": mixing(3, 2 * 3, 2),
    "mixing-gates-once": mixing(2, 2 * 3, 1),
    # softplus and its root for each expert; a sum, a division and a factor for each of the chosen
    "route-by-token": ledger(
        RouteByToken("y", 2, "sqrtsoftplus", scale=1.5, entries=5),
        ((2, 3, 4), (2, 3)),
        ((2, 3, 2), (2, 3, 2)),
        [(R, 2 * 24 + 3 * 12, 24 + 6 * (2 + 1), 2 * 12)],
        [(R, 2 * 24 + 3 * 12, 24 + 12, 24)],
        buffers={"experts_of": (5, 2)},
    ),
    # 3 index heads, d 5; of 4 tokens after 3 cached ones each sees the closed of 3 blocks of 2
    "index-blocks": ledger(
        IndexTopK("y", 2, 3, ClosedBlocks(2), by_element=True),
        ((2, 4, 3, 5), (2, 3, 1, 5), (2, 4, 3), (4,)),
        (2, 4, 2),
        [
            (C, 2 * 3 * 5 * 2 * BLOCKS, 2 * 3 * 5 * 2 * 4 * 3, 2 * (4 * 3 + 3) * 5, 3 * 2 * 4 * 3),
            (E, 0, 0, 3 * 2 * 4 * 3, 3 * 2 * 4 * 3),
            (E, 2 * 3 * 2 * BLOCKS, 2 * 3 * 2 * 4 * 3, 3 * 2 * 4 * 3 + 2 * 4 * 3, 2 * 4 * 3),
            (R, 0, 0, 2 * 4 * 3, 2 * 4 * 2),
        ],
        [],
        operands=0,
    ),
    "rotate-back": Case(
        Rotate("y", "interleaved", last=True, back=True),
        ((2, 3, 5, 6), (3, 2), (3, 2)),
        (2, 3, 5, 6),
        {E: 3 * (2 * 3 * 5) * 4},  # 4 of 6 dims turn
        {E: 3 * (2 * 3 * 5) * 4},
        (2 * 3 * 5 * 4, 2 * 3 * 5 * 4),
        2 * (2 * 3 * 5 * 4),
    ),
}


def compressed(op, weights, k, gate, *kept):
    """Each block's sum channel by channel, from the tokens of all calls."""
    if kept:
        k, gate = torch.cat([kept[0], k], 1), torch.cat([kept[1], gate], 1)
    d = k.shape[2] // (2 if op.overlaps else 1)
    blocks = k.shape[1] // op.rate
    keys = torch.zeros(k.shape[0], blocks, d)
    for b in range(k.shape[0]):
        before = [] if not kept[2:] else [(kept[2][b, j], kept[3][b, j]) for j in range(op.rate)]
        for i in range(blocks):
            tokens = range(i * op.rate, (i + 1) * op.rate)
            every = [(k[b, t], gate[b, t] + weights["places"][t % op.rate]) for t in tokens]
            own = [(value[-d:], z[-d:]) for value, z in every]
            seen = [*before, *own] if op.overlaps else own
            total = sum(torch.exp(z) for _, z in seen)
            keys[b, i] = sum(value * torch.exp(z) for value, z in seen) / total
            before = [(value[:d], z[:d]) for value, z in every]
    left = blocks * op.rate
    rest = (k[:, left:], gate[:, left:])
    if not op.keep:
        return (keys,)
    if not op.overlaps:
        return (keys, *rest)
    last = range(left - op.rate, left)
    firsts = [k[:, last, :d], (gate[:, last] + weights["places"])[..., :d]]
    return (keys, *rest, *firsts)


def mixed(op, weights, z):
    """Token by token: sigmoids, a softmax of each row, and sums made one in turn."""
    n = op.streams
    scale, base = weights["scale"], weights["base"]
    a = 1 / (1 + torch.exp(-(z[..., :n] * scale[0] + base[:n]))) + op.eps
    c = op.magnitude / (1 + torch.exp(-(z[..., n : 2 * n] * scale[1] + base[n : 2 * n])))
    matrices = torch.zeros(*z.shape[:2], n, n)
    for b in range(z.shape[0]):
        for t in range(z.shape[1]):
            rows = (z[b, t, 2 * n :] * scale[2] + base[2 * n :]).view(n, n)
            m = torch.stack([torch.exp(row) / torch.exp(row).sum() for row in rows]) + op.eps
            for step in range(2 * op.iterations - 1):
                m = m / (m.sum(step % 2, keepdim=True) + op.eps)
            matrices[b, t] = m
    return a, c, matrices


def by_token(op, weights, logits, ids):
    """Weights of the experts of each id, one by one."""
    index = torch.stack([torch.stack([weights["experts_of"][i] for i in row]) for row in ids])
    scores = torch.log(1 + torch.exp(logits)).sqrt().gather(-1, index)
    return op.scale * scores / scores.sum(-1, keepdim=True), index


def summed(op, weights, x):
    """Blocks token by token; the last takes all that is left."""
    blocks = x.shape[1] // op.rate
    sums = torch.zeros(x.shape[0], blocks, x.shape[2], dtype=x.dtype)
    for t in range(x.shape[1] if blocks else 0):
        sums[:, min(t // op.rate, blocks - 1)] += x[:, t]
    return sums


def block_bias(op, weights, positions):
    """Entries of a table of 8 by distances of -1, 0 and 1 blocks: buckets 1, 0 and 4 + 1."""
    rows = [[{-1: 1, 0: 0, 1: 5}[j - min(int(t) // op.rate, 1)] for j in range(2)] for t in positions]
    return weights["weight"][torch.tensor(rows)].permute(2, 0, 1)[None]


REFERENCES = {
    "SumBlocks": summed,
    "BlockBias": block_bias,
    "CompressTokens": compressed,
    "BlockPositions": lambda op, weights, positions: torch.tensor(
        [op.rate * (int(positions[0]) // op.rate + i) for i in range(op.count)]
    ),
    "ExtendBlocks": lambda op, weights, new, past: (torch.cat([past, new], 1),) * 2,
    "JoinBlocks": lambda op, weights, tokens, blocks: torch.cat([tokens, blocks], 1),
    "MixingGates": mixed,
    "RouteByToken": by_token,
}

ARGUMENTS = {("BlockBias", 0): "count_up", ("BlockPositions", 0): "count_up", ("RouteByToken", 1): "ids"}
UNTRAINED = {"CompressTokens": {2, 3, 4, 5}, "ExtendBlocks": {1}}
