"""Kernels of one rank of a plan: of its pass, recomputed ones, the loss and the update of a step.

An engine fuses the element-wise kernels of a row; a framework calls each operation. Loss and optimizer are
taken at their least cost: a loss that reads the logits twice and writes their gradient, an update in one
kernel that reads and writes each of its tensors once.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from archcli.arith import prod
from archcli.graph import Row, StateContent, StateKind
from archcli.measure.passes import SCORES
from archcli.modules.stored.formats import cache_bytes
from archcli.wings.serving.launches.kernel import KernelCost, KernelRun
from archcli.wings.serving.launches.trace import trace_kernels
from archcli.wings.serving.memory.pipeline import Stage
from archcli.wings.serving.memory.plan import Plan
from archcli.wings.serving.memory.settings import MemorySettings
from archcli.wings.serving.memory.shares import shares
from archcli.wings.serving.memory.traced import sizes_of
from archcli.wings.serving.predict.constants import FRAMEWORK, TRAINING_FRAMEWORK
from archcli.wings.serving.predict.rank.planned import PlannedPass, StagePlacement
from archcli.wings.serving.predict.rank.routing import unevenly
from archcli.wings.serving.predict.times import ATTENTION, PRODUCTS, kind_of
from archcli.wings.serving.recorded.classes import TimeClass
from archcli.wings.serving.recorded.operations import JOIN

LOSS_PASSES = (2, 1)
"""Logits read and read again, and their gradient written."""
LOSS = "loss"
ELEMENTWISE = TimeClass.ELEMENTWISE
CacheForm = Literal["grown", "in_place"]
"""Each step copies the cache into a longer one, as archcli's own model does, or writes into it."""
CacheReads = Literal["groups", "heads"]
"""Attention reads keys and values once for all query heads of a group, or once for each query head."""


class CacheUse(NamedTuple):
    """How a pass uses the cache of keys and values, and how it multiplies packed matrices.

    A pass that writes the cache in place is an engine's, which fuses the kernels of a row. Keys and values
    are kept in `cache_dtype`, empty for the model's. Products of packed matrices run in `native`, empty where
    they unpack them.
    """

    form: CacheForm = "grown"
    reads: CacheReads = "groups"
    cache_dtype: str = ""
    native: str = ""

    def cached_width(self, width: int) -> float:
        """Bytes of a cached number with its scales, in a model whose numbers have `width`."""
        if not self.cache_dtype:
            return width
        return float(cache_bytes(MANY, self.cache_dtype, StateContent.LATENT)) / MANY


MANY = 576 << 10
"""Numbers of which the mean width is taken: whole blocks of every format, and entries of latents."""
NO_CHANGE = CacheUse()


@dataclass(frozen=True, slots=True)
class RankKernels:
    """The kernels of one rank's pass or micro batch, of all stages, and their placement in stages.

    `launched` are those that torch launches, before an engine fuses any.
    """

    planned: PlannedPass
    kernels: tuple[KernelRun, ...]
    placement: StagePlacement
    launched: tuple[KernelRun, ...] = ()
    _alike: dict[Hashable, tuple[KernelRun, ...]] = field(default_factory=dict, init=False, compare=False)
    _placed: dict[bool, dict[object, list[KernelRun]]] = field(
        default_factory=dict, init=False, compare=False
    )
    _shares: dict[tuple[str, Stage], float] = field(default_factory=dict, init=False, compare=False)

    def share(self, path: str, stage: Stage) -> float:
        """The part of a kernel's launches that a stage has."""
        if (path, stage) not in self._shares:
            self._shares[path, stage] = float(self.placement.share(path, stage))
        return self._shares[path, stage]

    def called(self, phase: str) -> tuple[KernelRun, ...]:
        """The kernels, and the calls of their operations."""
        return (*self.kernels, *operation_calls(self.kernels, phase))

    def placed(self, phase: str, *, called: bool) -> dict[object, list[KernelRun]]:
        """The kernels by the layers that they stand for, in the order of the pass."""
        if called not in self._placed:
            places = self._placed[called] = dict[object, list[KernelRun]]()
            for run in self.called(phase) if called else self.kernels:
                places.setdefault(self.placement.place(run.path), []).append(run)
        return self._placed[called]

    def alike(self, stage: Stage, phase: str, batches: float, *, called: bool) -> tuple[KernelRun, ...]:
        """The kernels of a stage in so many batches, equal ones of a row together, on any device."""
        key = stage, batches, called
        if key not in self._alike:
            often: dict[KernelRun, float] = {}
            for run in self.called(phase) if called else self.kernels:
                part = self.part(run, stage)
                if part is not None:
                    alike = part._replace(times=1.0)
                    often[alike] = often.get(alike, 0.0) + batches * part.times
            self._alike[key] = tuple(run._replace(times=number) for run, number in often.items())
        return self._alike[key]

    def of_stage(self, stage: Stage) -> Iterator[KernelRun]:
        """The kernels of a stage, by the rows of counting."""
        for run in self.kernels:
            part = self.part(run, stage)
            if part is not None:
                yield part

    def part(self, run: KernelRun, stage: Stage) -> KernelRun | None:
        """A kernel as often as a stage runs it, by the row of counting; None for a kernel of others."""
        share = self.share(run.path, stage)
        if not share:
            return None
        return run._replace(path=self.placement.counted_path(run.path), times=run.times * share)


def rank_kernels(
    planned: PlannedPass,
    settings: MemorySettings,
    plan: Plan,
    use: CacheUse = NO_CHANGE,
    runs: Sequence[KernelRun] | None = None,
) -> RankKernels:
    """The kernels of a rank of a plan; `runs` are those of its pass where they are traced already.

    Raises ArchError for an operation whose kernels are not known.
    """
    runs = traced_runs(planned, settings) if runs is None else runs
    placement = StagePlacement(planned.model, [*(run.path for run in runs), LOSS], planned.placement)
    kernels = [*_of_rows(planned, runs, placement, plan, use)]
    rows = {placement.counted_path(row.path): row for row in planned.rows}
    named = {run.path: rows.get(placement.counted_path(run.path)) for run in kernels}
    launched = tuple(kernels)
    if use.form == "in_place":
        kernels = [*fused_rows(kernels, named, int(planned.width))]
    if planned.model.quantization is not None:
        # of quantized weights alone
        from archcli.wings.serving.predict.rank.stored import reading_stored, unpacking

        # kernels of inference unpack on the way, training has kernels that do nothing else
        if planned.request.phase == "train":
            kernels = [*unpacking(kernels, named, planned.model, settings.dtype)]
        else:
            kernels = [*reading_stored(kernels, named, planned.model, settings.dtype, use.native)]
    kernels = [*unevenly(kernels, named)]
    adapters = settings.engine.adapters if settings.engine is not None else 0
    if adapters:
        from archcli.wings.serving.predict.rank.adapters import in_slots  # of several adapters alone

        read = min(adapters, int(planned.request.batch_size))
        kernels = [*in_slots(kernels, named, read, int(planned.width))]
        placement = StagePlacement(planned.model, [*(run.path for run in kernels), LOSS], planned.placement)
    if settings.served and use.reads == "groups":
        from archcli.wings.serving.predict.rank.fused import served_runs  # of engines alone

        kernels = [*served_runs(kernels, named, int(planned.width), planned.model.stored_as)]
        placement = StagePlacement(planned.model, [*(run.path for run in kernels), LOSS], planned.placement)
    if planned.request.phase == "train":
        kernels.append(_loss(planned, settings))
    return RankKernels(planned, tuple(kernels), placement, launched)


def traced_runs(planned: PlannedPass, settings: MemorySettings) -> tuple[KernelRun, ...]:
    """The kernels of a rank's pass. Raises ArchError for an operation whose kernels are not known."""
    model, request, execution, dtype = planned.model, planned.request, settings.execution(), settings.dtype
    return planned.known.passed(
        ("kernels", *sizes_of(request), execution, dtype),
        lambda: trace_kernels(model, request, execution, dtype=dtype),
    )


def compiled_runs(planned: PlannedPass, settings: MemorySettings) -> tuple[KernelRun, ...]:
    """The kernels of a compiled pass, each with the rows that it holds; errors as of `traced_runs`."""
    from archcli.wings.serving.launches.compiled import compiled_kernels  # of compiled passes alone

    return compiled_kernels(planned.model, planned.request, settings.execution(), dtype=settings.dtype)


def update_kernel(planned: PlannedPass, settings: MemorySettings, plan: Plan, stage: Stage) -> KernelRun:
    """The optimizer's update of the weights whose states a rank of a stage has."""
    from archcli.wings.serving.memory.ranks import optimizer_bytes  # of training alone
    from archcli.wings.serving.memory.training.optimizers import FP32, optimizer

    numbers = shares(plan, planned.weights, stage).states
    state = int(optimizer_bytes(planned.weights, settings, plan, stage).device)
    masters = optimizer(settings.optimizer).has_masters
    # the gradients of masters lie in RAM in fp32
    summed = FP32 if masters and settings.offloads("optimizer") else int(planned.gradient_width)
    width = int(settings.trained_width)
    weights, gradients = numbers * width, numbers * summed
    # a master weight is part of the state, and the weight is a copy of it
    copied = masters and width < FP32
    read = gradients + state + (0 if copied else weights)
    return _moving("update", read, state + weights, settings.dtype)


def _of_rows(
    planned: PlannedPass, runs: Iterable[KernelRun], placement: StagePlacement, plan: Plan, use: CacheUse
) -> Iterator[KernelRun]:
    """The kernels of rows; those that the backward runs again come twice."""
    rows = {row.path: row for row in planned.rows}
    written: set[str] = set()
    for run in runs:
        counted = placement.counted_path(run.path)
        row = rows.get(counted)
        if row is not None and row.op.exchanges:
            continue  # timed as what is sent: what runs here stands in for it
        times, kernel = float(run.times), run.kernel
        if row is not None and row.op.component == SCORES:
            times *= plan.cp  # with the keys of each rank of the ring in turn
            if run.op_class == TimeClass.FUSED_ATTENTION:
                kernel = _reading(kernel, row, int(planned.width), use)
        elif row is not None and use.form == "in_place" and _adds_tokens(row):
            # one kernel writes all that a row of several adds to the cache
            if run.path in written:
                continue
            written.add(run.path)
            kernel = _written_in_place(kernel, row, int(planned.width), use)
        planned_run = run._replace(kernel=kernel, times=times)
        yield planned_run
        # a compiled kernel runs again for any of its rows
        if run.stage == "forward" and not planned.repeated.isdisjoint(counted.split(JOIN)):
            yield planned_run._replace(stage="recomputed")


def _adds_tokens(row: Row) -> bool:
    """Whether a row adds tokens to the cache; a recurrent state is rewritten as a whole."""
    return any(state.kind is not StateKind.FIXED for state in row.states)


def _reading(kernel: KernelCost, row: Row, width: int, use: CacheUse) -> KernelCost:
    """Attention that reads cached keys and values in the cache's dtype, and as often as the engine does.

    Keys and values of this pass, as in a prefill, are read in the model's dtype.
    """
    queries, keys, values, *_ = row.inputs
    # [B, T, H, D]; with more keys than queries some of the keys come from the cache
    shared = int(queries[2]) // int(keys[2]) if use.reads == "heads" else 1
    cached = use.cached_width(width) if int(keys[1]) > int(queries[1]) else width
    # an engine's kernel reads values that are part of the keys once, one of torch's at times an expanded copy
    of_keys = min(kernel.read - width * int(prod(queries)), width * int(prod(keys) + prod(values)))
    read = kernel.read + round(of_keys * (max(shared, 1) * cached / width - 1))
    call = kernel.call
    if call is not None and use.cache_dtype:
        call = call._replace(cache=use.cache_dtype)
    return kernel._replace(read=read, call=call)


def _written_in_place(kernel: KernelCost, row: Row, width: int, use: CacheUse) -> KernelCost:
    """The kernel that writes a row's new entries into the cache."""
    entries = int(prod(row.inputs[0]))
    written = round(entries * use.cached_width(width))
    return kernel._replace(name="index_copy", read=entries * width, written=written)


def _loss(planned: PlannedPass, settings: MemorySettings) -> KernelRun:
    """The cross entropy of the logits that the last row returns."""
    logits = int(prod(planned.rows[-1].outputs[0])) * int(planned.width)
    read, written = (passes * logits for passes in LOSS_PASSES)
    return _moving(LOSS, read, written, settings.dtype)


def _moving(name: str, read: int, written: int, dtype: str) -> KernelRun:
    """An element-wise kernel that reads and writes so many bytes."""
    return KernelRun(name, name, KernelCost(name, 0, read, written, dtype), ELEMENTWISE, 1.0)


def fused_rows(
    kernels: Iterable[KernelRun], rows: Mapping[str, Row | None], width: int
) -> Iterator[KernelRun]:
    """Fuse the kernels of each row, as engines do: those of a composite norm are one.

    The fused kernel reads the row's inputs, writes its outputs, and has the name of the last one. Products
    stay as they are; attention in one kernel makes its mask itself. `rows` are by the path of the kernels.
    """
    by_row: dict[tuple[str, str], list[KernelRun]] = {}
    for run in kernels:
        by_row.setdefault((run.path, run.stage), []).append(run)
    for (path, _), of_row in by_row.items():
        row = rows.get(path)
        kinds = [kind_of(run.op_class, run.kernel.name) for run in of_row]
        if ATTENTION in kinds:
            yield from (run for run, kind in zip(of_row, kinds, strict=True) if kind == ATTENTION)
        elif row is None or len(of_row) == 1 or PRODUCTS in kinds:
            yield from of_row
        else:
            yield _fused(of_row, row, width)


def _fused(of_row: list[KernelRun], row: Row, width: int) -> KernelRun:
    last = of_row[-1]
    read, written = (
        width * sum(int(prod(shape)) for shape in shapes) for shapes in (row.inputs, row.outputs)
    )
    flops = sum(run.kernel.flops for run in of_row)
    kernel = last.kernel._replace(read=read, written=written, flops=flops)
    # a kernel may run several times in a row: the rarest tells how often the row runs
    return last._replace(kernel=kernel, times=min(run.times for run in of_row))


def operation_calls(kernels: Iterable[KernelRun], phase: str) -> Iterator[KernelRun]:
    """The calls of every operation, each as a kernel that computes nothing and writes the call's results.

    A kernel that runs several times in a call is no call of its own.
    """
    name = TRAINING_FRAMEWORK if phase == "train" else FRAMEWORK
    calls: dict[tuple[str, str], tuple[float, float]] = {}
    for run in kernels:
        times, written = calls.get((run.path, run.stage), (run.times, 0.0))
        # a call launches each kernel once at least, so that the rarest of them tells how many calls there are
        calls[run.path, run.stage] = min(times, run.times), written + run.times * run.kernel.written
    for (path, stage), (times, written) in calls.items():
        kernel = KernelCost(name, 0, 0, round(written / times), "fp32")
        yield KernelRun(path, stage, kernel, TimeClass.FRAMEWORK, times)
