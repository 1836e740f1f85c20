"""Passes: which forward is counted. A pass is traced once into rows; every measure is a fold over them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeVar

from archcli.arith import Number, Shape, exact, label, whole
from archcli.errors import ArchError, Problem
from archcli.graph import Abstract, CountTape, OpClass, Row, Tensor, tree_map
from archcli.modules import AdaptiveHead, Block, Model, children, settings
from archcli.modules.base import Spec
from archcli.modules.model import stacks
from archcli.modules.mtp import MTP
from archcli.ops import Cache, Select

Phase = Literal["forward", "train", "prefill", "decode"]
S = TypeVar("S", bound=Spec)


class Cost(NamedTuple):
    """FLOPs of one class that all occurrences of a row spend: once for the forward, once for each part of the backward."""

    row: Row
    op_class: OpClass
    flops: Number


def is_cross(row: Row) -> bool:
    """Whether what this row caches is the source's."""
    return isinstance(row.op, Cache) and row.op.cross


@dataclass(frozen=True, slots=True)
class Pass:
    """One counted forward: its rows, and what was asked. `new` tokens enter after `past` cached ones."""

    phase: Phase
    batch_size: Number
    new: Number
    past: Number
    rows: tuple[Row, ...]

    def costs(self, *, dense: bool = False) -> Iterator[Cost]:
        """What every part of every row costs; `dense` counts the scores a mask forbids, too. Training adds the backward."""
        for row in self.rows:
            for part in row.parts:
                for piece in (part, *part.backward) if self.phase == "train" else (part,):
                    yield Cost(row, piece.op_class, row.times * (piece.dense_flops if dense else piece.flops))

    def flops(self, *, dense: bool = False) -> tuple[Number, Number]:
        """FLOPs of matrix products, and all others."""
        matmul: Number = 0
        other: Number = 0
        for cost in self.costs(dense=dense):
            if cost.op_class is OpClass.CONTRACTION:
                matmul = matmul + cost.flops
            else:
                other = other + cost.flops
        return whole(matmul), whole(other)

    @property
    def expected(self) -> bool:
        """Whether its figures are expected values: what it costs depends on which targets a batch has."""
        return any(isinstance(row.op, Select) for row in self.rows)

    def params(self) -> Number:
        """Parameters of all rows."""
        return sum((row.params for row in self.rows), 0)

    def cached(self) -> Number:
        """Elements of the tokens' own keys and values that the cache holds afterwards."""
        return sum((row.cached * row.times for row in self.rows if not is_cross(row)), 0)

    def cross_cached(self) -> Number:
        """Elements the cache holds of an encoder's output: keys and values of cross attention."""
        return sum((row.cached * row.times for row in self.rows if is_cross(row)), 0)


def forward_pass(
    model: Model, batch_size: Number = 1, seq_len: Number = 2048, *, last_only: bool = False, source_len: Number | None = None
) -> Pass:
    """All tokens at once, nothing cached: what evaluation and training run. `source_len` left out is `seq_len`."""
    return _pass("forward", model, (batch_size, seq_len), None, None, last_only, seq_len if source_len is None else source_len)


def train_pass(model: Model, batch_size: Number = 1, seq_len: Number = 2048, *, source_len: Number | None = None) -> Pass:
    """The forward whose parts also carry a backward; the reader adds them.

    It ends with the loss where the model states one, or needs targets for its head or its further predictions; else
    with the logits. Raises ArchError where the tokens are too few for those.
    """
    further = model.further_tokens
    if further and isinstance(seq_len, int) and seq_len <= further:
        raise ArchError(f"{seq_len} tokens are too few to predict {further} beyond the next", f"train on more than {further}")
    return _pass("train", model, (batch_size, seq_len), None, None, False, seq_len if source_len is None else source_len)


def prefill_pass(
    model: Model,
    batch_size: Number = 1,
    seq_len: Number = 2048,
    past: Number | None = None,
    *,
    last_only: bool = True,
    source_len: Number | None = None,
) -> Pass:
    """`seq_len` new tokens into a cache that is empty, or already holds `past`; logits of the last one."""
    length = seq_len if source_len is None else source_len
    return _pass("prefill", model, (batch_size, seq_len), past, _cache(model, batch_size, past, length), last_only, length)


def decode_pass(model: Model, batch_size: Number = 1, past: Number | None = 2048, *, source_len: Number | None = None) -> Pass:
    """One new token against a cache of `past` tokens (None: an empty one). `source_len` left out is `past`."""
    length = (past or 1) if source_len is None else source_len
    return _pass("decode", model, (batch_size, 1), past, _cache(model, batch_size, past, length), True, length)


def layers(model: Model) -> Iterator[tuple[str, Block, Number]]:
    """(path, block, times) of each distinct layer, as the rows name them."""
    for stem, stack in stacks(model):
        start: Number = 0
        for group in stack.groups:
            period = len(group.blocks)
            for i, block in enumerate(group.blocks):
                yield f"{stem}layers.{label(start + i)}", block, (group.n_layers + period - 1 - i) // period
            start = start + group.n_layers


def find(spec: Spec, cls: type[S], path: str = "") -> Iterator[tuple[str, S]]:
    """(full path, module) of every module of a class in an architecture, as `substitute` names them."""
    if isinstance(spec, cls):
        yield path, spec
    for step, child in children(spec):
        yield from find(child, cls, f"{path}.{step}" if path else step)


def named(model: Model, name: str) -> list[str]:
    """Full paths of the fields a bare name means: all of that name, which must agree.

    A full path means itself. Raises ArchError where they do not, or there are none.
    """
    fields = dict(settings(model))
    paths = [name] if name in fields else [path for path in fields if path.rsplit(".", 1)[-1] == name]
    if not paths:
        raise ArchError(Problem("no field of this name", path=name))
    if len({repr(fields[path]) for path in paths}) > 1:
        values = ", ".join(f"{path} {fields[path]}" for path in paths)
        raise ArchError(Problem("fields of this name have different values", f"say which by its full path: {values}", path=name))
    return paths


def beyond(model: Model, tokens: int) -> Iterator[str]:
    """A note where so many tokens are more than the model was made for: it is answered all the same."""
    limits = [value for path, value in settings(model) if path.split(".")[-1] == "max_seq_len" and value is not None]
    if limits and tokens > min(limits):
        yield f"{tokens:,} tokens are beyond max_seq_len {min(limits):,}: counted by shape all the same."


def without_source(model: Model, source_len: int | None) -> Iterator[str]:
    """A note where a source length was given to a model that reads no source."""
    if source_len is not None and model.source_shape(1, 1) is None:
        yield "--source-len has no effect: this model has no encoder."


def _cache(model: Model, batch_size: Number, past: Number | None, source_len: Number) -> tuple[Any, ...]:
    """What the cache holds after `past` tokens: the forward itself says so."""
    if past is None or (isinstance(past, int) and past == 0):
        return ()
    kept: tuple[Any, ...] = _traced(model, (batch_size, past), 0, (), True, source_len)[1]
    return kept


def prediction_rows(model: Model) -> tuple[Row, ...]:
    """The rows of multi-token prediction, which only training runs; none where there is none."""
    further = model.further_tokens
    counted = train_pass(model, 1, further + 1).rows if further else ()
    return tuple(row for row in counted if is_prediction(row))


def whole_tokens(model: Model) -> int:
    """The fewest tokens of which every stated share of targets is a whole number: a run has a multiple of them, or other shares."""
    from math import lcm

    heads = [head for _, head in find(model, AdaptiveHead)]
    return lcm(*(exact(share).denominator for head in heads for share in head.cluster_shares))


def is_prediction(row: Row) -> bool:
    """Whether a row belongs to multi-token prediction."""
    return row.path.startswith(f"{MTP}.")


def _pass(phase: Phase, model: Model, tokens: Shape, past: Number | None, cache: Any, last_only: bool, source_len: Number) -> Pass:
    training = phase == "train" and model.trains_on_targets
    rows, _ = _traced(model, tokens, past or 0, cache, last_only, source_len, training=training)
    return Pass(phase, tokens[0], tokens[1], past or 0, rows)


def _traced(
    model: Model, tokens: Shape, past: Number, cache: Any, last_only: bool, source_len: Number, *, training: bool = False
) -> tuple[tuple[Row, ...], Any]:
    rows: list[Row] = []
    tape = CountTape(rows)
    held = tree_map(lambda x: Tensor(tape, x.value), Tensor, cache)
    shapes = [shape for shape in (tokens, model.source_shape(tokens[0], source_len)) if shape is not None]
    ids, *source = [Tensor(tape, Abstract(shape, grad=False)) for shape in shapes]
    targets = {"targets": Tensor(tape, Abstract(tokens, grad=False))} if training else {}
    _, kept = model.forward(ids, None, past, held, last_only, *source, **targets)
    return tuple(rows), kept
