"""The pass of one rank of a plan: its rows, the stage of each, recomputed rows, and collectives.

A rank's share of the model is traced once: with a pipeline, for all stages together.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import chain

from archcli.arith import Number, whole
from archcli.graph import Row
from archcli.graph.kept import Call, Execution, In, Kept
from archcli.measure.passes import Pass, count_pass, shape_pass
from archcli.modules import Model
from archcli.modules.models.layers import LayerIndex, layer_count
from archcli.modules.models.model import inferring
from archcli.modules.spec.request import Request
from archcli.wings.serving.launches.memory.op_reader import OpReader
from archcli.wings.serving.launches.memory.storage import Recomputed
from archcli.wings.serving.memory.pipeline import Stage, stages_of
from archcli.wings.serving.memory.plan import Plan
from archcli.wings.serving.memory.settings import MemorySettings
from archcli.wings.serving.memory.shares import PlacedWeight, Widths, layer_starts, placed_weights
from archcli.wings.serving.memory.traced import TracedModel, sizes_of
from archcli.wings.serving.predict.communication.collective import Collective, merged
from archcli.wings.serving.predict.constants import WIDTHS
from archcli.wings.serving.recorded.operations import JOIN


class StagePlacement:
    """The layer of each row of a traced pass, numbered across stacks, and so the stage that runs it.

    The first stage runs the rows before all layers, the last those after them.
    """

    def __init__(self, model: Model, paths: Iterable[str], known: StagePlacement | None = None) -> None:
        """Place the paths of rows, in the order in which they run.

        Of equal layers a few may be traced: the first, one in the middle, and the last. Each stands for the
        layers up to the next traced one. `known`: a placement of other paths of the model, whose index is
        reused.
        """
        self.n_layers = layer_count(model)
        self._behind: dict[str, bool] = {}
        self.index: LayerIndex = LayerIndex(model) if known is None else known.index
        self.counted: dict[str, str] = {} if known is None else known.counted
        starts, numbered = layer_starts(model), dict[str, list[tuple[str, int]]]()
        for path in dict.fromkeys(paths):
            layers = list(_layers_of(path, starts))
            if not layers:
                # paths come in the order of the forward: one after some layer comes after all of them
                self._behind[path] = bool(numbered)
            else:
                numbered[path] = layers
        known_layers = dict.fromkeys(chain.from_iterable(numbered.values()))
        traced = {prefix: sorted({n for at, n in known_layers if at == prefix}) for prefix in starts}
        alike: dict[tuple[str, int], range] = {}
        for prefix, number in known_layers:
            span, start = self.index.span(self.counted_path(f"{prefix}{number}")), starts[prefix]
            numbers = traced[prefix]
            later = numbers[bisect_right(numbers, number) : bisect_left(numbers, span.stop)]
            end = next((n for n in later if n in span), span.stop)
            alike[prefix, number] = range(start + number, start + end, span.step)
        # a compiled kernel of two layers runs as often as the more frequent of both
        self._layers = {path: max(map(alike.__getitem__, of), key=len) for path, of in numbered.items()}

    def counted_path(self, path: str) -> str:
        """The path of the row in counting; for a compiled kernel those of all its rows."""
        if path not in self.counted:
            self.counted[path] = JOIN.join(dict.fromkeys(map(self.index.counted_path, path.split(JOIN))))
        return self.counted[path]

    def layers(self, path: str) -> range:
        """The layers that a row stands for; none for one outside of layers."""
        return self._layers.get(path, range(0))

    def place(self, path: str) -> range | bool:
        """The layers that a row stands for; outside of layers, whether it comes after them."""
        return self._layers[path] if path in self._layers else self._behind[path]

    def share(self, path: str, stage: Stage) -> Fraction:
        """The part of a row's occurrences that a stage runs."""
        numbers = self._layers.get(path)
        if numbers is None:
            return Fraction(int(stage.is_last if self._behind[path] else stage.is_first))
        # a fraction, not a float: shares of all stages must add up to exactly 1
        return Fraction(stage.layers_of(numbers), len(numbers))


def _layers_of(path: str, starts: Iterable[str]) -> Iterator[tuple[str, int]]:
    """The layers of a path, which is that of several rows for a compiled kernel."""
    for part in path.split(JOIN):
        prefix = next((prefix for prefix in starts if part.startswith(prefix)), None)
        if prefix is not None:
            yield prefix, int(part.removeprefix(prefix).partition(".")[0])


def stage_rows(placement: StagePlacement, rows: Iterable[Row], stage: Stage) -> Iterator[tuple[Row, Number]]:
    """(row, times that the stage runs it) of a stage's rows."""
    for row in rows:
        times = whole(row.times * placement.share(row.path, stage))
        if times:
            yield row, times


@dataclass(frozen=True, slots=True)
class PlannedPass:
    """The pass of one rank's share of a model, in one piece: with a pipeline, the rows of all stages.

    It is the same for all plans of equal `tp`, `sp`, `ep` and `cp`.

    known, request, passed: the traced model, the request, and the counted pass.
    weights: of the share.
    placement: the layers of its rows.
    repeated: paths of recomputed rows.
    hidden: elements B T d between two layers.
    width, gradient_width: bytes of an element, and of a weight's gradient.
    with_head: stages count the head as a layer.
    in_ram: number of first layers in RAM, which no stage has.
    split: bytes of unlike devices, in proportion to which stages have layers.
    """

    known: TracedModel
    request: Request
    passed: Pass
    weights: tuple[PlacedWeight, ...]
    placement: StagePlacement
    repeated: frozenset[str]
    hidden: Number
    width: Number
    gradient_width: Number
    with_head: bool = False
    in_ram: int = 0
    split: tuple[int, ...] = ()
    _of_stages: dict[Stage, tuple[Collective, ...]] = field(default_factory=dict, compare=False, repr=False)

    @property
    def model(self) -> Model:
        """The rank's share of the model."""
        return self.known.model

    @property
    def rows(self) -> tuple[Row, ...]:
        """The rows of the pass."""
        return self.passed.rows

    @property
    def widths(self) -> Widths:
        """Bytes of an element of a weight, and of its gradient."""
        return Widths(self.width, self.gradient_width)

    @property
    def multiplied(self) -> Number:
        """Bytes of an element that experts multiply: of packed ones it is quantized before it is sent."""
        stored = self.model.quantization
        product = None if stored is None else stored.product
        return self.width if product is None else WIDTHS[product.runs_in]

    def repeating(self, settings: MemorySettings) -> PlannedPass:
        """The same pass with the recomputation of these settings."""
        # drop the cached collectives: recomputed rows send again in the backward
        return replace(self, repeated=_repeated(self.rows, settings), _of_stages={})

    def stages(self, plan: Plan) -> tuple[Stage, ...]:
        """The stages of a plan."""
        by_layers, in_ram, n_layers = self.with_head, self.in_ram, self.placement.n_layers
        return stages_of(plan, n_layers, with_head=by_layers, in_ram=in_ram, split=self.split)

    def collectives(self, plan: Plan, stage: Stage, grad_accum: int = 1) -> Iterator[Collective]:
        """The collectives of a stage's rank: of a whole training step, else of a pass."""
        if plan.devices == 1:
            return
        from archcli.wings.serving.predict.communication import exchanges  # of several devices alone

        of_batch = self.of_micro_batch(plan, stage)
        if self.request.phase != "train":
            yield from of_batch
            yield from exchanges.of_batch_onward(plan, stage, self.hidden, self.width)
            return
        micro_batches = plan.micro_batches * grad_accum
        yield from (collective.scaled(micro_batches) for collective in of_batch)
        yield from exchanges.of_stages(plan, stage, self.hidden, self.width, micro_batches)
        yield from exchanges.of_replicas(self.weights, plan, stage, self.widths, micro_batches)

    def of_micro_batch(self, plan: Plan, stage: Stage) -> tuple[Collective, ...]:
        """The collectives of a stage's rows in one micro batch, or in a pass."""
        if stage not in self._of_stages:
            self._of_stages[stage] = merged(self._of_rows(plan, stage))
        return self._of_stages[stage]

    def _of_rows(self, plan: Plan, stage: Stage) -> Iterator[Collective]:
        from archcli.wings.serving.predict.communication import exchanges  # of several devices alone

        rows = tuple(stage_rows(self.placement, self.rows, stage))
        training = self.request.phase == "train"
        repeated = self.repeated if training else None
        yield from exchanges.of_rows(rows, plan, self.width, repeated, self.multiplied)
        if training:
            yield from exchanges.of_context(rows, plan, self.width, self.repeated)


def planned_pass(model: Model, settings: MemorySettings, plan: Plan) -> PlannedPass:
    """Trace a rank's pass: in training of a micro batch, else of one batch in flight.

    Raises ArchError for a plan that the model cannot have.
    """
    plan.check(model, settings)
    training = settings.phase == "train"
    tokens = settings.tokens(model)
    of_micro_batch = settings.of_length(model, tokens // plan.cp)
    request = (of_micro_batch if training else plan.of_stage(settings, int(tokens))).request(model)
    known = TracedModel(model)
    if not training:
        # inference holds no weights of multi-token prediction, which runs only in training
        known = known.part("inferring", lambda: inferring(model))
    known = known.share(plan, 0)
    share = known.model
    # in inference with costs: without parallelism this pass also answers how many FLOPs the model has
    trace = shape_pass if training else count_pass
    passed = known.passed(("planned", *sizes_of(request)), lambda: trace(share, request))
    return PlannedPass(
        known,
        request,
        passed,
        tuple(placed_weights(share, passed.rows, settings.width)),
        StagePlacement(share, [row.path for row in passed.rows]),
        _repeated(passed.rows, settings),
        (settings.batch_size * tokens if training else request.batch_size * request.seq_len) * model.d_model,
        settings.width,
        settings.gradient_width,
        settings.splits_layers,
        settings.layers_in_ram,
        settings.split,
    )


def asked_pass(model: Model, settings: MemorySettings, plan: Plan, planned: PlannedPass) -> Pass:
    """The pass of the whole model with its costs: the planned pass, if a rank has the whole model."""
    request = settings.request(model)
    # the planned pass of training has no costs
    if settings.phase != "train" and plan.is_whole and planned.request == request:
        return planned.passed
    return TracedModel(model).passed(("counted", *sizes_of(request)), lambda: count_pass(model, request))


def _repeated(rows: Sequence[Row], settings: MemorySettings) -> frozenset[str]:
    """Paths of the rows that the backward runs again."""
    if settings.phase != "train" or settings.recompute == "none":
        return frozenset()
    from archcli.wings.serving.memory.training.losses import recomputed  # of training alone

    return repeated_paths(rows, recomputed(settings.recompute), settings.execution())


def repeated_paths(rows: Sequence[Row], rule: Recomputed | None, execution: Execution) -> frozenset[str]:
    """Paths of the rows that a backward runs again, by a rule of recomputation.

    torch's checkpoint stops early: rows after the last one that keeps a tensor do not run again. Nor does
    that row if it keeps only inputs: autograd saves these before the row runs.
    """
    if rule is None:
        return frozenset()
    regions: dict[str, list[Row]] = {}
    for row in rows:
        region = _region(row.path, rule)
        if region is not None:
            regions.setdefault(region, []).append(row)
    again = (row.path for region in regions.values() for row in _needed(region, execution))
    return frozenset(path for path in again if path in regions or not rule.keeps(path))


def _region(path: str, rule: Callable[[str], bool]) -> str | None:
    """The outermost recomputed module around a path, or the operation itself; None for others."""
    steps = path.split(".")
    above = (".".join(steps[:n]) for n in range(1, len(steps) + 1))
    return next((module for module in above if rule(module)), None)


def _needed(rows: list[Row], execution: Execution) -> list[Row]:
    """Rows up to the last one that keeps a tensor; without that one if it keeps only inputs."""
    kept = [_kept(row, execution) for row in rows]
    keeping = [number for number, of_row in enumerate(kept) if of_row is not None]
    if not keeping:
        return []
    last = keeping[-1]
    inputs_alone = all(isinstance(tensor, In) for tensor in kept[last] or ())
    return rows[: last + (0 if inputs_alone else 1)]


def _kept(row: Row, execution: Execution) -> tuple[Kept, ...] | None:
    """The tensors that a row's backward keeps if gradients flow through it; None for a view."""
    n = len(row.inputs)
    experts = row.experts.n_experts if row.experts else None
    execution = execution._replace(assumes=True)
    call = Call(execution, (True,) * n, (execution.width,) * n, row.trained, experts)
    kept = OpReader()(row.op, call, row.inputs).kept
    # a view keeps no tensor; the row that computed its storage runs again
    shows = row.op.is_view and not row.op.exchanges
    return kept if kept or shows else None
