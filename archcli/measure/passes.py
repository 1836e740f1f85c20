"""Passes: which forward is counted. A pass is traced once into rows; every measure is a fold over them."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeVar

from archcli.arith import Number, Shape, exact, label, whole
from archcli.errors import ArchError, Problem
from archcli.graph import Abstract, CountTape, OpClass, Part, Row, StateKind, Tensor, tree_map
from archcli.modules import (
    AdaptiveHead,
    Block,
    Model,
    MultiHeadLatentAttention,
    children,
    settings,
    substitute,
)
from archcli.modules.base import Spec
from archcli.modules.lora import adapted
from archcli.modules.model import stacks
from archcli.modules.mtp import MTP
from archcli.modules.outline import counted_layers
from archcli.ops import Select

Phase = Literal["forward", "train", "prefill", "decode"]
MlaForm = Literal["naive", "absorbed"]
S = TypeVar("S", bound=Spec)
GROWING = (StateKind.TOKENS, StateKind.WINDOW)
"""States to which a token adds, below every window."""


class Cost(NamedTuple):
    """FLOPs of one class that all occurrences of a row spend: once for the forward, once for each part of the backward."""

    row: Row
    op_class: OpClass
    flops: Number


@dataclass(frozen=True, slots=True)
class Pass:
    """One counted forward: its rows, and what was asked. `new` tokens enter after `past` cached ones.

    `source_len` is how many positions the encoder of an encoder-decoder has, None for any other model; `source_cached`
    the elements of the source that the cache already holds.
    """

    phase: Phase
    batch_size: Number
    new: Number
    past: Number
    rows: tuple[Row, ...]
    source_len: Number | None = None
    source_cached: Number = 0

    def sizes(self) -> dict[str, Number | None]:
        """How much goes through the model, by the names JSON gives it; `source_len` is None where no source is read."""
        return {
            "batch_size": self.batch_size,
            "seq_len": self.new,
            "past": self.past,
            "source_len": self.source_len,
        }

    def costs(self, *, dense: bool = False) -> Iterator[Cost]:
        """What every part of every row costs; `dense` counts the scores a mask forbids, too. Training adds the backward."""
        for row in self.rows:
            for part in row.parts if self.phase == "train" else _outside_training(row):
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
        """Elements of the tokens' own states that the cache holds afterwards."""
        return self.kv_elements() + self.state_elements()

    def kv_elements(self) -> Number:
        """Those of `cached` that grow with the tokens, if only up to a window: keys and values."""
        return _elements(self.rows, GROWING)

    def state_elements(self) -> Number:
        """Those of `cached` that are constant, whatever the length."""
        return _elements(self.rows, (StateKind.FIXED,))

    def cross_cached(self) -> Number:
        """Elements the cache holds afterwards of an encoder's output: keys and values of cross attention."""
        return self.source_cached + _elements(self.rows, (StateKind.SOURCE,))


def _elements(rows: Iterable[Row], kinds: Container[StateKind]) -> Number:
    """Elements of all states of these kinds."""
    states = ((row, state) for row in rows for state in row.states)
    return sum((state.elements * row.times for row, state in states if state.kind in kinds), 0)


def _outside_training(row: Row) -> Iterator[Part]:
    return (part for part in row.parts if not part.training)


def forward_pass(
    model: Model,
    batch_size: Number = 1,
    seq_len: Number = 2048,
    *,
    last_only: bool = False,
    source_len: Number | None = None,
) -> Pass:
    """All tokens at once, nothing cached: what evaluation and training run. `source_len` left out is `seq_len`."""
    return _pass(
        "forward",
        model,
        (batch_size, seq_len),
        seq_len if source_len is None else source_len,
        last_only=last_only,
    )


def train_pass(
    model: Model, batch_size: Number = 1, seq_len: Number = 2048, *, source_len: Number | None = None
) -> Pass:
    """The forward whose parts also carry a backward; the reader adds them.

    It ends with the loss where the model states one, or needs targets for its head or its further predictions; else
    with the logits. Raises ArchError where the tokens are too few for those.
    """
    further = model.mtp_depth
    if further and isinstance(seq_len, int) and seq_len <= further:
        raise ArchError(
            f"{seq_len} tokens are too few to predict {further} beyond the next",
            f"train on more than {further}",
        )
    return _pass("train", model, (batch_size, seq_len), seq_len if source_len is None else source_len)


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
    return _pass(
        "prefill",
        model,
        (batch_size, seq_len),
        length,
        _cached(model, batch_size, past, length),
        last_only=last_only,
    )


def decode_pass(
    model: Model, batch_size: Number = 1, past: Number | None = 2048, *, source_len: Number | None = None
) -> Pass:
    """One new token against a cache of `past` tokens (None: an empty one). `source_len` left out is `past`."""
    length = (past or 1) if source_len is None else source_len
    return _pass(
        "decode", model, (batch_size, 1), length, _cached(model, batch_size, past, length), last_only=True
    )


def layers(model: Model) -> Iterator[tuple[str, Block, Number]]:
    """(path, block, times) of each distinct layer, as the rows name them."""
    for stem, stack in stacks(model):
        start: Number = 0
        for group in stack.groups:
            period = len(group.blocks)
            for i, block in enumerate(group.blocks):
                yield f"{stem}layers.{label(start + i)}", block, (group.n_layers + period - 1 - i) // period
            start = start + group.n_layers


def folded_path(path: str, depth: int | None = None) -> str:
    """The first `depth` steps of a row's path (None: all), with `layers.7` as `layers.*`: what all layers of a stack share."""
    steps = path.split(".")
    steps = [
        "*" if before in {"layers", "rotary"} else step
        for before, step in zip(["", *steps], steps, strict=False)
    ]
    return ".".join(steps[:depth])


def tensors(model: Model) -> tuple[dict[str, Shape], dict[str, Shape]]:
    """(weights, buffers) of the whole model by name and shape, every layer by its own index: the keys of a built model's state_dict."""
    weights: dict[str, Shape] = {}
    buffers: dict[str, Shape] = {}
    places = _places(model)
    for row in forward_pass(model, 1, 1).rows:
        stacked = () if row.experts is None else (row.experts.n_experts,)
        found = LAYER.match(row.path)
        for path in places[found[0]] if found else [row.path]:
            whole = path + row.path[found.end() :] if found else path
            weights |= {f"{whole}.{name}": (*stacked, *shape) for name, shape in row.weights.items()}
            buffers |= {
                f"{whole}.{name}": (*stacked, *shape) for name, shape in row.op.buffers(*row.inputs).items()
            }
    return weights, buffers


LAYER = re.compile(r"(?:\w+\.)?layers\.\d+")


def _places(model: Model) -> dict[str, list[str]]:
    """The path of each layer that is counted: those of all layers it stands for."""
    counted = counted_layers(model, stacks(model))
    return {path: [f"{path.rpartition('.')[0]}.{layer}" for layer in layers] for path, layers in counted}


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
        raise ArchError(
            Problem(
                "fields of this name have different values",
                f"say which by its full path: {values}",
                path=name,
            )
        )
    return paths


def with_mla(model: Model, form: MlaForm) -> Model:
    """The model with every latent attention computed in the given form."""
    return substitute(model, {f"{path}.form": form for path, _ in find(model, MultiHeadLatentAttention)})


def beyond(model: Model, tokens: int) -> Iterator[str]:
    """A note where so many tokens are more than the model was made for: it is answered all the same."""
    limits = [
        value for path, value in settings(model) if path.split(".")[-1] == "max_seq_len" and value is not None
    ]
    if limits and tokens > min(limits):
        yield f"{tokens:,} tokens are beyond max_seq_len {min(limits):,}: counted by shape all the same."


def without_source(model: Model, source_len: int | None) -> Iterator[str]:
    """A note where a source length was given to a model that reads no source, or always one as long."""
    length = None if source_len is None else model.source_length(source_len)
    if length == source_len:
        return
    states = (
        "this model has no encoder"
        if length is None
        else f"this model's encoder always has {length:,} positions"
    )
    yield f"--source-len has no effect: {states}."


class _Start(NamedTuple):
    """What a pass begins with: tokens already seen, their cache (None for a pass that caches nothing), its elements of the source."""

    past: Number = 0
    cache: Any = None
    of_source: Number = 0


UNCACHED, EMPTY = _Start(), _Start(cache=())


def _cached(model: Model, batch_size: Number, past: Number | None, source_len: Number) -> _Start:
    """The cache after `past` tokens: the forward itself says so."""
    if past is None or (isinstance(past, int) and past == 0):
        return EMPTY
    rows, kept = _traced(model, (batch_size, past), source_len, EMPTY, last_only=True)
    return _Start(past, kept, _elements(rows, (StateKind.SOURCE,)))


def prediction_rows(model: Model) -> tuple[Row, ...]:
    """The rows of multi-token prediction, which only training runs; none where there is none."""
    further = model.mtp_depth
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


def _pass(
    phase: Phase,
    model: Model,
    tokens: Shape,
    source_len: Number,
    start: _Start = UNCACHED,
    *,
    last_only: bool = False,
) -> Pass:
    to_the_loss = phase == "train" and model.trains_on_targets
    rows, _ = _traced(model, tokens, source_len, start, last_only=last_only, to_the_loss=to_the_loss)
    length = model.source_length(source_len)
    return Pass(phase, tokens[0], tokens[1], start.past, rows, length, start.of_source)


def _traced(
    model: Model,
    tokens: Shape,
    source_len: Number,
    start: _Start,
    *,
    last_only: bool,
    to_the_loss: bool = False,
) -> tuple[tuple[Row, ...], Any]:
    rows: list[Row] = []
    tape = CountTape(rows)
    held = tree_map(lambda x: Tensor(tape, x.value), Tensor, start.cache)
    shapes = [shape for shape in (tokens, model.source_shape(tokens[0], source_len)) if shape is not None]
    ids, *source = [Tensor(tape, Abstract(shape, grad=False)) for shape in shapes]
    targets = {"targets": Tensor(tape, Abstract(tokens, grad=False))} if to_the_loss else {}
    _, kept = adapted(model).forward(ids, None, start.past, held, last_only, *source, **targets)
    return tuple(rows), kept
