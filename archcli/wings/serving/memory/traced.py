"""Trace a pass with its storages: rows, live bytes of each moment by purpose, and kept bytes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast
from weakref import WeakValueDictionary

from archcli.arith import Number, maximum
from archcli.errors import ArchError
from archcli.graph import Row, Tensor, tree_map
from archcli.graph.count_tape import Abstract
from archcli.graph.kept import INT64, Execution
from archcli.measure.passes import shape_pass
from archcli.modules import Model
from archcli.modules.models.model import inferring
from archcli.modules.spec.forms import formed
from archcli.modules.spec.request import InputSpec, Request
from archcli.modules.spec.trace import run_on, trace
from archcli.wings.serving.launches.memory.op_reader import OpReader
from archcli.wings.serving.launches.memory.storage import Ledger, Recomputed
from archcli.wings.serving.launches.memory.tape import FilledTape, MemoryTape, Placement
from archcli.wings.serving.launches.memory.written import ARCHCLI, Code

if TYPE_CHECKING:
    from archcli.wings.media.modules.models.tower import Tower
    from archcli.wings.serving.memory.plan import Plan

USUAL = ("weights", "gradients", "optimizer", "kept", "loss", "gathered", "temporaries", "cache")
PARTS = (*USUAL, "adapters", "draft")
"""Purposes of memory, in the order in which a report lists them; the last two of few questions alone."""


class MemoryMoment(NamedTuple):
    """Bytes in memory at one moment: of a stage (forward, loss, backward, …), while an operation runs.

    kept: activations that the forward keeps for the backward.
    gathered: what a rank holds of other ranks' shares.
    temporaries: other activations, and their gradients.
    """

    stage: str
    path: str
    weights: Number = 0
    gradients: Number = 0
    optimizer: Number = 0
    kept: Number = 0
    loss: Number = 0
    gathered: Number = 0
    temporaries: Number = 0
    cache: Number = 0
    adapters: Number = 0
    draft: Number = 0

    @property
    def bytes(self) -> Number:
        """Bytes of all parts."""
        return sum(self[2:], 0)

    @property
    def parts(self) -> dict[str, Number]:
        """Bytes by purpose."""
        return {name: size for name in PARTS if (size := getattr(self, name)) or name in USUAL}


def highest(moments: Iterable[MemoryMoment]) -> MemoryMoment:
    """The moment with the most bytes, the first of several."""
    return max(moments, key=lambda moment: moment.bytes)


def peak_bytes(moments: Iterable[MemoryMoment]) -> Number:
    """The most bytes of any moment; element by element for arrays."""
    peak: Number = 0
    for moment in moments:
        peak = maximum(peak, moment.bytes)
    return peak


T = TypeVar("T")
MOST_HELD = 64
"""The most results of one model to keep."""


class TracedPass(NamedTuple):
    """A traced pass.

    rows: its operations. ledger: its storages. output: logits, with `has_targets` a loss.
    cache: after the pass. cached: rows of the pass that filled the cache before.
    """

    request: Request
    execution: Execution
    rows: tuple[Row, ...]
    ledger: Ledger
    output: Tensor
    cache: Any
    has_targets: bool
    cached: tuple[Row, ...] = ()


OF_STORAGE = {"quantization", "published_in"}
"""Fields of a model that say how its weights are stored; no pass reads them."""


class Passes(dict[Hashable, Any]):
    """The traced passes of models that differ in how their weights are stored alone.

    figures: what is recorded of such a model (`KnownBytes`), in place of passes.
    """

    figures: Any = None


# none outlives the questions about its model: a trace of many layers is large
_passes: WeakValueDictionary[Hashable, Passes] = WeakValueDictionary()


def passes_of(model: Model) -> Passes:
    """The passes of a model, and of all that share its fields but for how weights are stored."""
    # by identity: to compare whole models takes as long as a trace, and sizes may be arrays
    fields = (value for name, value in vars(model).items() if name not in OF_STORAGE)
    return _passes.setdefault((type(model), *map(id, fields)), Passes())


class TracedModel:
    """A model and its traced passes, so that none is traced twice.

    Questions that differ in optimizer or device alone need the same passes, and in inference those that
    differ in the format of the weights, too: `passes` are common to all of these. `suits` says which plans
    of inference the model can have.
    """

    def __init__(self, model: Model, passes: Passes | None = None) -> None:
        self.model = model
        self.passes = passes_of(model) if passes is None else passes
        self._results: dict[Hashable, Any] = {}
        self.suits: dict[Plan, bool] = {}

    @property
    def inferring(self) -> Model:
        """The model as inference has it."""
        return self.once("inferring", lambda: inferring(self.model))

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """The result of `make`, kept under a key; made again if the key has no hash or is long unused."""
        return _once(self._results, key, make)

    def passed(self, key: Hashable, make: Callable[[], T]) -> T:
        """The same of a result that does not depend on how the weights are stored."""
        return _once(self.passes, key, make)

    def part(self, key: Hashable, make: Callable[[], Model]) -> TracedModel:
        """A part of the model, such as a stage."""
        passes = self.passed(("part", key), Passes)
        return self.once(key, lambda: TracedModel(make(), passes))

    def trained_rows(self, request: Request) -> Sequence[Row]:
        """The rows of a training step, which are counted once."""
        return self.once("trained rows", lambda: shape_pass(self.model, request).rows)

    def share(self, plan: Plan, rank: int) -> TracedModel:
        """The share of a rank; the first rank's, traced once, where both are equal."""
        first = self.part((plan.degrees, 0), lambda: plan.share(self.model))
        if not rank:
            return first
        mine = self.once(("share", plan.degrees, rank), lambda: plan.share(self.model, rank))
        # the class of a share has its rank, too, by which nothing but the part of the vocabulary differs
        with suppress(ValueError):  # of arrays
            if all(getattr(mine, name) == getattr(first.model, name) for name in mine.fields):
                return first
        return self.part((plan.degrees, rank), lambda: mine)


def sizes_of(request: Request) -> tuple[Hashable, ...]:
    """What tells the passes of settings apart."""
    forms = tuple(sorted(request.forms.items()))
    return request.phase, request.batch_size, request.seq_len, request.past, request.source_len, forms


def _once(made_before: dict[Hashable, Any], key: Hashable, make: Callable[[], T]) -> T:
    try:
        result = made_before.pop(key, None)
    except TypeError:  # arrays and symbols
        return make()
    result = made_before[key] = make() if result is None else result
    if len(made_before) > MOST_HELD:  # a trace of many layers is large
        del made_before[next(iter(made_before))]
    return cast("T", result)


def trace_memory(
    model: Model | Tower,
    request: Request,
    execution: Execution,
    recomputed: Recomputed | None = None,
    *,
    moments: bool = True,
    values: Mapping[Any, int] | None = None,
    code: Code = ARCHCLI,
) -> TracedPass:
    """Trace the pass of a request with its storages.

    moments: False leaves out the live bytes and costs of rows, and gives kept bytes alone: sums of live bytes
        are slow in symbols and arrays.
    values: those of the symbols of a formula; they decide which kernels run.
    recomputed: what the backward computes again, and whether what it keeps lies in RAM.
    code: a trainer's, which runs the operations.

    Raises ArchError for an operation that does not state what it keeps and calls a function unknown here.
    """
    request = request.resolved()
    model, _ = formed(model, request)
    runs, cache = model.adapted, (() if request.caches else None)
    cached: tuple[Row, ...] = ()
    if request.continues:
        cached, cache = trace(model, request.filling(), adapted=runs, cache=(), counting=FilledTape)
    rows: list[Row] = []
    tape = MemoryTape(rows)
    tape.execution, tape.read, tape.code = execution, OpReader(values), code
    tape.ledger.follows = moments
    if recomputed is not None:
        tape.recomputed, tape.ledger.offloads = recomputed, recomputed.offloads
    inputs = _placed_inputs(model, request, execution)
    try:
        output, cache = run_on(tape, runs, request, inputs, cache)
    except NotImplementedError as missing:  # of an operation that is not archcli's own
        raise ArchError(
            str(missing), "`kept` of the operation's class states what its backward keeps"
        ) from missing
    has_targets = "targets" in inputs
    return TracedPass(request, execution, tuple(rows), tape.ledger, output, cache, has_targets, cached)


def _placed_inputs(model: Model | Tower, request: Request, execution: Execution) -> Any:
    widths = {"ids": INT64, "features": execution.width}
    return tree_map(
        lambda spec: Abstract(spec.shape, grad=False, place=Placement(None, widths[spec.kind])),
        InputSpec,
        model.reads(request),
    )


def cached_before(traced: TracedPass) -> Number:
    """Bytes of the cache before the pass."""
    elements = sum((state.elements * row.times for row in traced.cached for state in row.states), 0)
    return elements * traced.execution.width


def kept_bytes(traced: TracedPass) -> Any:
    """Bytes that autograd keeps for the backward, of all layers."""
    saved = traced.ledger.saved.values()
    return sum((storage.record.size * storage.record.times for storage in saved), 0)
