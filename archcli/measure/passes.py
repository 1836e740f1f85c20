"""Pass: the rows of one traced forward, from which every measure is summed."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from archcli.arith import Number, whole
from archcli.errors import ArchError
from archcli.graph import OpClass, Row, StateKind
from archcli.graph.count_tape import CountTape, ShapeTape, StateTape
from archcli.modules import Model
from archcli.modules.spec.forms import formed
from archcli.modules.spec.request import Logits, Medium, Phase, Request
from archcli.modules.spec.trace import ONE_TOKEN, trace

if TYPE_CHECKING:  # of models with towers alone
    from archcli.modules import Tower

GROWING = (StateKind.TOKENS, StateKind.WINDOW)
"""States that grow with each token while the context is shorter than every window."""
SCORES = "attention_scores"
"""The component of the operations that read queries, keys and values in turn."""


def usual_sizes(phase: str) -> dict[str, int]:
    """Default sizes of a pass: one sequence, nothing cached, and one new token in decoding."""
    return {"batch_size": 1, **({"seq_len": 1} if phase == "decode" else {"past": 0})}


class Cost(NamedTuple):
    """FLOPs of one part, forward or backward, over all occurrences of a row."""

    row: Row
    op_class: OpClass
    flops: Number


@dataclass(frozen=True, slots=True)
class Pass:
    """The rows of one traced forward, and the request it answers, resolved.

    source_len: positions of the encoder of an encoder-decoder; None for any other model.
    source_cached: elements of the source that the cache already holds.
    forms: those that modules compute in, by key: {"mla": "absorbed"}; empty without a choice of forms.
    """

    request: Request
    rows: tuple[Row, ...]
    source_len: Number | None = None
    source_cached: Number = 0
    forms: Mapping[str, str] = field(default_factory=dict)

    @property
    def phase(self) -> Phase:
        return self.request.phase

    @property
    def batch_size(self) -> Number:
        return self.request.batch_size

    @property
    def new(self) -> Number:
        """New tokens per sequence."""
        return self.request.seq_len

    @property
    def past(self) -> Number:
        """Tokens per sequence that the cache held before the pass."""
        return self.request.past

    def sizes(self) -> dict[str, Number | None]:
        """The sizes of the pass by JSON's keys; `source_len` is None where no source is read."""
        return {
            "batch_size": self.batch_size,
            "seq_len": self.new,
            "past": self.past,
            "source_len": self.source_len,
        }

    def inputs(self) -> dict[str, Any]:
        """The request of the pass, by JSON's keys; a form without effect is None."""
        forms = {**dict.fromkeys(self.request.forms), **self.forms}
        return {"phase": self.phase, **self.sizes(), **forms}

    def costs(self, *, unmasked: bool = False) -> Iterator[Cost]:
        """The cost of every part of every row; `unmasked` also counts scores that a mask forbids."""
        for row in self.rows:
            for _, _, part in row.pieces(self.phase):
                yield Cost(row, part.op_class, row.times * (part.unmasked_flops if unmasked else part.flops))

    def flops(self, *, unmasked: bool = False) -> tuple[Number, Number]:
        """(FLOPs of matrix products, all other FLOPs)."""
        matmul: Number = 0
        other_flops: Number = 0
        for cost in self.costs(unmasked=unmasked):
            if cost.op_class is OpClass.CONTRACTION:
                matmul = matmul + cost.flops
            else:
                other_flops = other_flops + cost.flops
        return whole(matmul), whole(other_flops)

    @property
    def expected(self) -> bool:
        """Whether the figures are expected values, as costs depend on data."""
        return bool(self.expectations)

    @property
    def expectations(self) -> tuple[str, ...]:
        """What the figures are expected values of, a sentence each."""
        return tuple(dict.fromkeys(row.op.expected for row in self.rows if row.op.expected))

    def sent_elements(self) -> Number:
        """Elements that the rank of a plan sends to others over rings; 0 for a whole model."""
        sent: Number = 0
        for row in self.rows:
            if row.op.exchanges:
                back = row.op.sent_back(*row.inputs) if self.phase == "train" else 0
                sent = sent + row.times * (row.op.sent(*row.inputs) + back)
        return whole(sent)

    def params(self) -> Number:
        """Parameters of all rows; those of a tower once, however many images it reads."""
        # of several candidates at once layers share a path, and those read no images
        once = self.request.in_prompt
        rows = {row.path: row for row in reversed(self.rows)}.values() if once else self.rows
        return sum((row.params for row in rows), 0)

    def cached(self) -> Number:
        """Elements in the cache after the pass, without those of an encoder's output."""
        return self.kv_elements() + self.state_elements()

    def kv_elements(self) -> Number:
        """Cached elements that grow with the tokens, perhaps up to a window: keys and values."""
        return _elements(self.rows, GROWING)

    def state_elements(self) -> Number:
        """Cached elements of fixed-size states, independent of length."""
        return _elements(self.rows, (StateKind.FIXED,))

    def cross_cached(self) -> Number:
        """Cached elements of an encoder's output: keys and values of cross attention."""
        return self.source_cached + _elements(self.rows, (StateKind.SOURCE,))


def _elements(rows: Iterable[Row], kinds: Container[StateKind]) -> Number:
    """Elements of all states of these kinds."""
    states = ((row, state) for row in rows for state in row.states)
    return sum((state.elements * row.times for row, state in states if state.kind in kinds), 0)


def count_pass(model: Model, request: Request, counting: type[CountTape] = CountTape) -> Pass:
    """Trace the pass of a request. A model without a cache caches nothing, whatever the phase.

    `counting` is the tape: a ShapeTape leaves costs out, a StateTape all but what is cached.
    """
    # everything below reads values that the phase decides: past, logits, one token in decoding
    request = request.resolved()
    if not request.in_prompt:  # a pass with towers makes what layers read
        model, request = model.with_media(request.media), model.fitted(request)
    if request.phase == "train":
        model.require_tokens(request.seq_len)
    # the forms first: they decide which operations the trace finds
    model, forms = formed(model, request)
    runs, cache, source_cached = model.adapted, (() if request.caches else None), 0
    if request.continues:
        rows, cache = trace(model, request.filling(), adapted=runs, cache=(), counting=StateTape)
        # the pass itself only reads keys and values of the source, so that its own rows lack them
        source_cached = _elements(rows, (StateKind.SOURCE,))
    rows, _ = trace(model, request, adapted=runs, cache=cache, counting=counting)
    return Pass(request, rows, model.source_length(request.source_positions), source_cached, forms)


def tower_rows(
    tower: Tower, medium: Medium, counting: type[CountTape] = CountTape, request: Request = ONE_TOKEN
) -> tuple[Row, ...]:
    """The rows of a tower and its projector over the first pieces of an image or a sound of a request."""
    rows, _ = trace(tower.sized(medium), tower.reading(request, medium), counting=counting)
    return rows


def medium_rows(tower: Tower, medium: Medium, request: Request) -> tuple[Row, ...]:
    """The rows of a tower and its projector over all pieces of an image or a sound of a request."""
    sized = tower.sized(medium)
    traces = (trace(sized, reading)[0] for reading in tower.readings(request, medium))
    return tuple(row for rows in traces for row in rows)


def all_tower_rows(model: Model) -> Iterator[tuple[str, Row]]:
    """(part, row) of all towers and their projectors over a medium of the usual size, without costs."""
    for tower in model.towers:
        for row in tower_rows(tower, tower.usual, ShapeTape):
            yield tower.part_of(row), row


def checked_pass(model: Model, request: Request) -> Pass:
    """Trace the pass of a user's request. Raises ArchError where the model has no such pass."""
    if not model.caches and request.resolved().caches:
        raise ArchError(
            "an encoder has no cache to fill and generates nothing", "ask for phase forward or train"
        )
    return count_pass(model, request)


def shape_pass(model: Model, request: Request = ONE_TOKEN) -> Pass:
    """The pass of a request without costs, for its shapes and parameters."""
    return count_pass(model, request, ShapeTape)


def cache_pass(model: Model, request: Request) -> Pass:
    """The pass of a request, with only the rows that leave something in the cache."""
    return count_pass(model, request, StateTape)


def forward_pass(
    model: Model,
    batch_size: Number = 1,
    seq_len: Number = 2048,
    *,
    last_only: bool = False,
    source_len: Number | None = None,
) -> Pass:
    """A forward over all tokens at once, without a cache, as in evaluation."""
    logits: Logits = "last" if last_only else "all"
    return count_pass(model, Request("forward", batch_size, seq_len, None, source_len, logits))


def train_pass(
    model: Model, batch_size: Number = 1, seq_len: Number = 2048, *, source_len: Number | None = None
) -> Pass:
    """A training step: forward and backward.

    It ends with the loss where the model states one, or needs targets for its head or its further
    predictions; else with the logits. Raises ArchError where the tokens are too few for those.
    """
    return count_pass(model, Request("train", batch_size, seq_len, None, source_len))


def prefill_pass(
    model: Model,
    batch_size: Number = 1,
    seq_len: Number = 2048,
    past: Number | None = None,
    *,
    last_only: bool = True,
    source_len: Number | None = None,
) -> Pass:
    """Prefill of `seq_len` tokens after `past` cached ones, with logits of the last token."""
    logits: Logits = "last" if last_only else "all"
    return count_pass(model, Request("prefill", batch_size, seq_len, past, source_len, logits))


def decode_pass(
    model: Model, batch_size: Number = 1, past: Number | None = 2048, *, source_len: Number | None = None
) -> Pass:
    """Decoding of one token after `past` cached ones (None: an empty cache).

    `source_len` left out is `past`.
    """
    return count_pass(model, Request("decode", batch_size, 1, 0 if past is None else past, source_len))
