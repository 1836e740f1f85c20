"""The cost of the delta rule by parts, chunk by chunk and token by token.

Inputs are numbered as those of `DeltaScan`: 0 q, 1 k, 2 v, 3 log a, 4 b.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from archcli.arith import Number, Shape, minimum, prod, tetrahedron
from archcli.graph import OpClass, Part
from archcli.ops.base import contraction
from archcli.ops.recurrent.chunks import block_pairs, causal_pairs, chunk_count

Wrt = int | tuple[int, ...]

OLD = (1, 3, 4)
"""What the corrections of a chunk's keys depend on."""

ALL = (1, 2, 3, 4)
"""What a state depends on."""


class DeltaSizes(NamedTuple):
    """Sizes of a scan, over all sequences and all heads of values.

    rows: tokens, once for each head. d, e: the widths of a key and of a value.
    per_channel: each channel of a key has a decay of its own.
    shared: elements of q, and of k, as they are stored: once for several heads of values.
    chunks: chunks of a sequence. heads: heads of all sequences.
    pairs: pairs of tokens s <= t of one chunk. strict: those with s < t. blocks: all pairs of a chunk.
    first, last: the rows of the first chunk, and of the last.
    cubes: the sum of n^3 over all chunks of n tokens. thirds: the sum of (n^3 - n) / 3.
    solved: FLOPs of the substitution. solved_back: those of its gradient.
    """

    rows: Number
    d: Number
    e: Number
    per_channel: bool
    shared: Number
    chunks: Number
    pairs: Number
    strict: Number
    blocks: Number
    first: Number
    last: Number
    cubes: Number
    thirds: Number
    solved: Number
    solved_back: Number
    heads: Number

    @property
    def keys(self) -> Number:
        """Elements of a key for each row."""
        return self.rows * self.d

    @property
    def values(self) -> Number:
        """Elements of a value for each row."""
        return self.rows * self.e

    @property
    def channels(self) -> Number:
        """Decays of a key."""
        return self.d if self.per_channel else 1

    @property
    def gates(self) -> Number:
        """Elements of log a."""
        return self.rows * self.channels

    @property
    def state(self) -> Number:
        """Elements of one state of all heads."""
        return self.heads * self.d * self.e

    @property
    def inputs(self) -> Number:
        """Elements of all inputs but the state."""
        return 2 * self.shared + self.values + self.gates + self.rows


def sizes(q: Shape, v: Shape, chunk: Number, *, per_channel: bool) -> DeltaSizes:
    """The sizes of a scan over q [B, T, K, d] and v [B, T, H, e] in chunks."""
    heads, tokens = v[0] * v[2], v[1]
    whole = tokens // chunk
    rest = tokens - whole * chunk

    def of_chunks(cost: Callable[[Number], Number]) -> Number:
        return heads * (whole * cost(chunk) + cost(rest))

    chunks = chunk_count(tokens, chunk)
    pairs = heads * causal_pairs(tokens, chunk)
    return DeltaSizes(
        rows=heads * tokens,
        d=q[3],
        e=v[3],
        per_channel=per_channel,
        shared=prod(q),
        chunks=chunks,
        pairs=pairs,
        strict=pairs - heads * tokens,
        blocks=heads * block_pairs(tokens, chunk),
        first=heads * minimum(tokens, chunk),
        last=heads * (tokens - (chunks - 1) * chunk),
        cubes=of_chunks(lambda n: n * n * n),
        # n^3 - n is 6 tetrahedron(n - 1): whole numbers without a division
        thirds=of_chunks(lambda n: 2 * tetrahedron(n - 1)),
        solved=of_chunks(lambda n: 2 * tetrahedron(n - 2)),
        solved_back=of_chunks(lambda n: n * n * (n - 1)),
        heads=heads,
    )


def by_chunk(s: DeltaSizes) -> tuple[Part, ...]:
    """Parts of the chunked form: inputs are read once, outputs and a state per chunk written.

    Gradients of the zeros before the first chunk, and of the state after the last, are not executed.
    """
    parts = (*_of_pairs(s), *_corrections(s), *_outputs(s), *_passed_on(s))
    # what one part hands to the next stays in fast memory
    first, *others = (replace(part, read=0, written=0) for part in parts)
    *others, last = others
    moved = replace(last, read=(s.chunks - 1) * s.state, written=s.values + s.chunks * s.state)
    return (replace(first, read=s.inputs), *others, moved)


def by_token(s: DeltaSizes) -> tuple[Part, ...]:
    """Parts of the recurrent form: the state is read and written with every token."""
    states = s.rows * s.d * s.e
    decay = _times("decay", states, s.gates, ALL, 3, extra=s.gates)
    predicted = contraction("predicted", 2 * states, [(s.keys, 1), (states, ALL)], s.values)
    to_value = Part("d_2", OpClass.ELEMENTWISE, s.values, s.values + s.rows, s.values, wrt=2)
    to_beta = Part("d_4", OpClass.NORMALIZATION, 2 * s.values - s.rows, 2 * s.values, s.rows, wrt=4)
    correct = Part("correct", OpClass.ELEMENTWISE, 2 * s.values, 0, 0, (to_value, to_beta))
    update = contraction("update", 2 * states, [(s.keys, 1), (s.values, ALL)], states)
    readout = contraction("readout", 2 * states, [(s.keys, 0), (states, ALL)], s.values)
    return (
        replace(decay, read=s.inputs + states),
        replace(predicted, read=0, written=0),
        correct,
        replace(update, read=0, written=states),
        replace(readout, read=0, written=s.values),
    )


def _of_pairs(s: DeltaSizes) -> tuple[Part, ...]:
    """Products of keys with keys and queries of their chunk, and their decays."""
    gathered = Part("d_3", OpClass.ELEMENTWISE, s.gates, s.gates, s.gates, wrt=3, scans=True)
    overlap = _product("overlap", s.strict, s.blocks, s.d, ((s.keys, (1, 4)), (s.keys, 1)), s.blocks)
    scores = _product("scores", s.pairs, s.blocks, s.d, ((s.keys, 0), (s.keys, 1)), s.blocks)
    return (
        Part("accumulate", OpClass.ELEMENTWISE, s.gates, 0, 0, (gathered,), scans=True),
        _times("weigh_keys", s.keys, s.rows, 1, 4),
        *(_channel_decays if s.per_channel else _head_decays)(s),
        overlap,
        scores,
    )


def _head_decays(s: DeltaSizes) -> tuple[Part, ...]:
    """exp(difference) of every pair, by which both its products are multiplied."""
    to_decay = Part("d_3", OpClass.NORMALIZATION, 3 * s.pairs, 2 * s.blocks, s.rows, wrt=3)
    quotients = Part("quotients", OpClass.ELEMENTWISE, 2 * s.pairs, 0, 0, (to_decay,), executed=2 * s.blocks)
    return (
        quotients,
        _times("decay_overlap", s.strict, s.strict, (1, 4), 3),
        _times("decay_scores", s.pairs, s.pairs, (0, 1), 3),
    )


def _channel_decays(s: DeltaSizes) -> tuple[Part, ...]:
    """exp(difference) of every pair and channel, times the earlier key."""
    n, blocks = s.pairs * s.d, s.blocks * s.d
    to_keys = Part("d_1", OpClass.NORMALIZATION, 2 * n, 2 * blocks, s.keys, wrt=1)
    to_decay = Part("d_3", OpClass.NORMALIZATION, 3 * n, 2 * blocks, s.gates, wrt=3)
    return (Part("decayed_keys", OpClass.ELEMENTWISE, 3 * n, 0, 0, (to_keys, to_decay), executed=3 * blocks),)


def _corrections(s: DeltaSizes) -> tuple[Part, ...]:
    """The inverse M of 1 + A by substitution, M b v, M b k a, and what the state predicts of it."""
    of_inverse = (
        Part("d_solve", OpClass.ELEMENTWISE, s.solved_back, 2 * s.blocks, s.blocks, wrt=OLD, scans=True),
        Part(
            "d_overlap", OpClass.CONTRACTION, s.thirds, 2 * s.blocks, s.blocks, executed=2 * s.cubes, wrt=OLD
        ),
    )
    return (
        Part("substitution", OpClass.ELEMENTWISE, s.solved, 0, 0, of_inverse, scans=True),
        _times("weigh_values", s.values, s.rows, 2, 4),
        _product("new_values", s.pairs, s.blocks, s.e, ((s.blocks, OLD), (s.values, (2, 4))), s.values),
        _times("decay_keys", s.keys, s.gates, (1, 4), 3, extra=s.gates),
        _product("old_keys", s.pairs, s.blocks, s.d, ((s.blocks, OLD), (s.keys, OLD)), s.keys),
        _of_state("predicted", s, s.keys, OLD, s.first),
        Part("correct", OpClass.ELEMENTWISE, s.values, 0, 0),
    )


def _outputs(s: DeltaSizes) -> tuple[Part, ...]:
    """Queries' answers from the state, and from the corrected values of the chunk."""
    return (
        _times("decay_queries", s.keys, s.gates, 0, 3),
        _of_state("readout", s, s.keys, 0, s.first),
        _product("mix", s.pairs, s.blocks, s.e, ((s.blocks, (0, 1, 3)), (s.values, ALL)), s.values),
        Part("add", OpClass.ELEMENTWISE, s.values, 0, 0),
    )


def _passed_on(s: DeltaSizes) -> tuple[Part, ...]:
    """The state after each chunk: decayed, and added to what the chunk has learnt."""
    sums, handed_on = s.chunks * s.state, 2 * (s.rows - s.last) * s.d * s.e
    update = contraction("update", 2 * s.keys * s.e, [(s.keys, (1, 3)), (s.values, ALL)], sums)
    to_state = Part("d_state", OpClass.ELEMENTWISE, 2 * sums, 2 * sums, sums, wrt=ALL)
    to_decay = Part("d_3", OpClass.NORMALIZATION, 2 * sums, 2 * sums, s.gates, wrt=3)
    factors = s.chunks * s.heads * s.channels
    return (
        _times("decay_updates", s.keys, s.gates, 1, 3, extra=2 * s.gates),
        replace(update, backward=tuple(replace(back, executed=handed_on) for back in update.backward)),
        Part("passing", OpClass.ELEMENTWISE, 2 * sums + factors, 0, 0, (to_state, to_decay)),
    )


def _product(
    name: str,
    pairs: Number,
    blocks: Number,
    width: Number,
    operands: tuple[tuple[Number, Wrt], tuple[Number, Wrt]],
    out: Number,
) -> Part:
    """A contraction of `width` multiply-adds for each pair of tokens."""
    return contraction(name, 2 * width * pairs, operands, out, executed=2 * width * blocks)


def _of_state(name: str, s: DeltaSizes, keys: Number, wrt: Wrt, first: Number) -> Part:
    """Rows [d] times a state: that before the `first` rows is no function of the inputs."""
    flops = 2 * keys * s.e
    product = contraction(name, flops, [(keys, wrt), (s.chunks * s.state, ALL)], s.values)
    to_rows, to_state = product.backward
    learnt = replace(to_state, executed=flops - 2 * first * s.d * s.e)
    return replace(product, backward=(to_rows, learnt))


def _times(name: str, n: Number, factors: Number, wrt: Wrt, by: int, *, extra: Number = 0) -> Part:
    """n elements times shared factors; a factor's gradient is a sum over the elements that share it.

    `extra` FLOPs make the factors.
    """
    to_elements = Part("d_elements", OpClass.ELEMENTWISE, n, n + factors, n, wrt=wrt)
    to_factors = Part("d_factors", OpClass.NORMALIZATION, 2 * n - factors + extra, 2 * n, factors, wrt=by)
    return Part(name, OpClass.ELEMENTWISE, n + extra, 0, 0, (to_elements, to_factors))
