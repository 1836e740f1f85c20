"""The devices of a plan: the memory of each kind of rank at its peak, and bytes beyond the model.

Beyond the model are the CUDA context, NCCL, cuBLAS workspaces and allocator rounding. None of them follows
from the model's architecture, and none is part of an exact total. Workspaces are those of torch's defaults,
rounding is an upper bound; the context and NCCL are ranges, with measurements by others as sources.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from archcli.arith import Number
from archcli.errors import ArchError
from archcli.measure.kvcache.engine import ANY_ENGINE
from archcli.measure.passes import shape_pass
from archcli.modules import Model
from archcli.modules.models.layers import layer_count
from archcli.wings.serving.memory.inference import in_ram_bytes, inference_pass, serving, stored_bits
from archcli.wings.serving.memory.pipeline import Stage, in_flight, pieces, stage_model, stages_of
from archcli.wings.serving.memory.plan import OF_WEIGHTS, Plan
from archcli.wings.serving.memory.reserved.reserves import reserves_of
from archcli.wings.serving.memory.settings import MemorySettings
from archcli.wings.serving.memory.shares import (
    PlacedWeight,
    Widths,
    bytes_of_stage,
    gathered,
    local_shapes,
    placed_weights,
    shares,
)
from archcli.wings.serving.memory.traced import MemoryMoment, TracedModel, TracedPass, highest

if TYPE_CHECKING:
    from archcli.wings.serving.memory.training.held import Held
    from archcli.wings.serving.memory.training.optimizers import OptimizerBytes

Value = TypeVar("Value")

MIB = 2**20

CONTEXT = (300_000_000, 500_000_000)
CONTEXT_SOURCE = (
    "range; the driver, and kernels that are loaded lazily since CUDA 11.7: 300 MB (pytorch/pytorch#107667), "
    "400 MB (pytorch/pytorch#109888), more with more libraries"
)
NCCL = (360_000_000, 410_000_000)
NCCL_SOURCE = (
    "estimate for one communicator; it grows with communicators and channels (NVIDIA/nccl#864): 544 to 688 "
    "MB each on 4 A100 (NVIDIA/nccl#964), 3.3 GB more for all-to-all on 8 H100 (NVIDIA/nccl#1685)"
)

WORKSPACES = {
    "sm_9": 8 * 4096 * 1024,
    "sm_10": 8 * 4096 * 1024,
    "sm_12": 8 * 4096 * 1024,
    "sm_": 2 * 4096 * 1024 + 8 * 16 * 1024,
    "gfx94": (128 + 76) * MIB,
    "gfx95": (128 + 76) * MIB,
    "gfx": (32 + 76) * MIB,
    "": 8 * 4096 * 1024,
}
"""Bytes of one cuBLAS workspace by the prefix of the architecture; an unknown one counts as Hopper.

The formats are those of CUBLAS_WORKSPACE_CONFIG, KiB by count: :4096:8 and :4096:2:16:8. cuBLASLt shares
it; on AMD's, hipBLASLt has another of 76 MiB.
"""
WORKSPACE_SOURCE = (
    "torch's defaults in ATen/cuda/CublasHandlePool.cpp: CUBLAS_WORKSPACE_CONFIG=:4096:2:16:8, 32 MiB on "
    "Hopper and Blackwell, more on AMD's; one for each thread and stream that multiplies"
)

LABELS = {
    "gfx": ("HIP context", "RCCL", "hipBLAS workspaces"),
    "": ("CUDA context", "NCCL", "cuBLAS workspaces"),
}
"""Names of the libraries, by the prefix of the architecture."""

MATRIX = 2
"""Axes of a matrix."""
ROUNDING = 512
"""Bytes that torch's caching allocator rounds a block up to (kMinBlockSize of c10/cuda)."""
ROUNDING_SOURCE = (
    "c10/cuda/CUDACachingAllocator.cpp: each storage takes a multiple of 512 bytes, so at most 511 more; its "
    "segments of 2 MiB (blocks up to 1 MiB), 20 MiB (up to 10) or a multiple of 2 MiB may stay partly "
    "empty, which is not counted"
)


class Overhead(NamedTuple):
    """A part of the memory beyond the model: label, upper and lower end of its bytes, and a source."""

    label: str
    bytes: int
    least_bytes: int
    source: str


class BeyondModel(NamedTuple):
    """The memory of one device beyond the model, part by part."""

    parts: tuple[Overhead, ...]

    @property
    def bytes(self) -> int:
        """Bytes of all parts together, each at its upper end."""
        return sum(part.bytes for part in self.parts)

    @property
    def least_bytes(self) -> int:
        """Bytes of all parts together, each at its lower end."""
        return sum(part.least_bytes for part in self.parts)


def workspace_bytes(architecture: str) -> int:
    """Bytes of one cuBLAS workspace on an architecture such as sm_90 or gfx942, as torch allocates it."""
    return _by_start(WORKSPACES, architecture)


def beyond_model(
    backend: str = "cuda",
    architecture: str = "",
    *,
    training: bool,
    n_devices: int = 1,
    n_storages: int = 0,
    of_engine: tuple[Overhead, ...] = (),
) -> BeyondModel:
    """The memory of a device beyond the model; none on the backend cpu.

    n_storages: storages alive at the peak. of_engine: what an engine takes besides.

    A training step multiplies on two threads, the program's and autograd's, each with its own workspace.
    """
    if backend == "cpu":
        return BeyondModel(())
    context, communicator, blas = _by_start(LABELS, architecture)
    workspaces = workspace_bytes(architecture) * (2 if training else 1)
    return BeyondModel(
        (
            Overhead(context, CONTEXT[1], CONTEXT[0], CONTEXT_SOURCE),
            *((Overhead(communicator, NCCL[1], NCCL[0], NCCL_SOURCE),) if n_devices > 1 else ()),
            Overhead(blas, workspaces, workspaces, WORKSPACE_SOURCE),
            *of_engine,
            Overhead("allocator rounding", (ROUNDING - 1) * n_storages, 0, ROUNDING_SOURCE),
        )
    )


def _by_start(table: Mapping[str, Value], architecture: str) -> Value:
    """The entry of the longest key that is a prefix of the architecture."""
    return table[max((start for start in table if architecture.startswith(start)), key=len)]


class RankPeak(NamedTuple):
    """The peak of one device.

    rank, stage: its rank within a stage of the pipeline, and the stage.
    peak: the moment with the most bytes.
    traced, moments: its pass, and all moments.
    """

    rank: int
    stage: int
    peak: MemoryMoment
    traced: TracedPass
    moments: tuple[MemoryMoment, ...]
    kept_beside: Number = 0
    """Bytes that towers keep for their backward; `traced` is the pass of the language model."""
    in_ram: Mapping[str, Number] = MappingProxyType({})
    """Bytes in RAM of an offload in training, by purpose."""

    @property
    def kept(self) -> Number:
        """Bytes that are kept for the backward, of the language model and its towers."""
        return self.traced.ledger.kept + self.kept_beside

    def with_temporaries(self, size: int) -> RankPeak:
        """The peak with `size` more bytes of temporaries in every moment."""
        return self.changed(lambda moment: moment._replace(temporaries=moment.temporaries + size))

    def changed(self, change: Callable[[MemoryMoment], MemoryMoment]) -> RankPeak:
        """The peak with a change of every moment."""
        return self._replace(peak=change(self.peak), moments=tuple(map(change, self.moments)))


def rank_peaks(known: TracedModel, settings: MemorySettings, plan: Plan) -> list[RankPeak]:
    """The peaks of the first and the last rank of each stage; of one device its own.

    Towers are whole on all ranks of the first stage. Raises ArchError for a plan that the model cannot have.
    """
    plan.check(known.model, settings)
    peaks = _rank_peaks(known, settings, plan)
    if not known.model.towers:
        return peaks
    from archcli.wings.serving.memory.parts.towers import tower_passes, with_towers  # of towers alone

    mine = settings if settings.phase == "train" else plan.of_replica(settings)
    kept = sum(it.kept for it in tower_passes(known, mine))

    def beside_towers(rank: RankPeak) -> RankPeak:
        moments = with_towers(rank.moments, known, mine, plan)
        return rank._replace(peak=highest(moments), moments=moments, kept_beside=kept)

    return [rank if rank.stage else beside_towers(rank) for rank in peaks]


def _rank_peaks(known: TracedModel, settings: MemorySettings, plan: Plan) -> list[RankPeak]:
    model = known.model
    if plan.devices == 1 and (settings.offload is None or settings.phase == "train"):
        return [_single(known, settings)]
    by_layers, in_ram = settings.splits_layers, settings.layers_in_ram
    stages = stages_of(plan, layer_count(model), with_head=by_layers, in_ram=in_ram, split=settings.split)
    if settings.phase != "train":
        distinct = stages if settings.split else distinct_stages(stages)
        placed = ((stage, rank) for stage in distinct for rank in _ends(plan.tp))
        return [_inferring(known, settings, plan, stage, rank) for stage, rank in placed]
    trained = _TrainedRanks(model, settings, plan)
    return [trained.peak(stage, rank) for stage in stages for rank in _ends(plan.replicas * plan.tp)]


def _single(known: TracedModel, settings: MemorySettings, held: Number | None = None) -> RankPeak:
    """The peak of a device that runs a whole model; `held`: bytes of weights, if it is a stage's."""
    model = known.model
    if settings.phase == "train":
        from archcli.wings.serving.memory.training.step import training_step  # of training alone

        step = training_step(model, settings, known=known)
        return RankPeak(0, 0, highest(step.moments), step.traced, step.moments, in_ram=step.in_ram)
    run = serving if settings.served else inference_pass
    passed = run(model, settings, known, held)
    return RankPeak(0, 0, highest(passed.moments), passed.traced, passed.moments)


def _inferring(known: TracedModel, settings: MemorySettings, plan: Plan, stage: Stage, rank: int) -> RankPeak:
    """The peak of a rank in inference, which runs its replica's part of the sequences."""
    if plan.cp > 1 or plan.zero:
        what = "prefill, decode and serve share a model by tp, pp, ep and dp alone"
        raise ArchError(what, "leave the rest out")
    share, mine = known.share(replace(plan, pp=1), rank), plan.of_replica(settings)
    if plan.pp == 1 and settings.offload is None:
        return _single(share, mine)._replace(rank=rank)
    model = share.inferring
    held = bytes_of_stage(stored_bits(share, settings.dtype, settings.engine or ANY_ENGINE), stage)
    if stage.is_first:
        held -= in_ram_bytes(model, settings, share, has_head=stage.is_last)
    # stages of equal layers share a pass, except the last, which has the head
    key = "stage", stage if stage.is_first and stage.is_last else (stage.is_last, pieces(model, stage))
    of_stage = share.part(key, lambda: stage_model(model, stage))
    if settings.offload is None:
        peak = _single(of_stage, mine, held)._replace(rank=rank, stage=stage.number)
        return peak.with_temporaries(_copied(peak, mine, model))
    from archcli.wings.serving.memory.parts.in_ram import copied_bytes, experts_in_ram  # of an offload alone

    peak = _single(of_stage, mine, held - experts_in_ram(share, settings, stage))
    # the first device holds the matrices that are copied from RAM
    copied = 0 if stage.number else copied_bytes(share, mine)
    return peak.with_temporaries(copied)._replace(rank=rank, stage=stage.number)


def _copied(peak: RankPeak, settings: MemorySettings, model: Model) -> int:
    """Bytes of what enters a card more than once, of an engine whose cards have whole layers."""
    engine = settings.engine or ANY_ENGINE
    if not reserves_of(engine).copies:
        return 0
    from archcli.wings.serving.memory.reserved.graph import copied_inputs  # of such engines alone

    context, first = settings.context(model), not peak.stage
    return int(copied_inputs(peak.traced, engine, context, model.d_model, first=first))


class _TrainedRanks:
    """Peaks of the ranks of a training plan; stages with equal layers are traced once."""

    def __init__(self, model: Model, settings: MemorySettings, plan: Plan) -> None:
        self.model, self.settings, self.plan = model, settings, plan
        self._weights: dict[int, tuple[PlacedWeight, ...]] = {}
        self._traced: list[tuple[tuple[Model, int], TracedPass]] = []

    def peak(self, stage: Stage, rank: int) -> RankPeak:
        """The peak of a rank of a stage."""
        from archcli.wings.serving.memory.training.step import training_step  # of training alone

        mine = self.settings.of_length(self.model, self.settings.tokens(self.model) // self.plan.cp)
        held = self.held(stage, rank)
        layers = stage_model(self.model, stage), rank % self.plan.tp
        traced = next((traced for alike, traced in self._traced if alike == layers), None)
        step = training_step(self.plan.share(*layers), mine, held, traced)
        if traced is None:
            self._traced.append((layers, step.traced))
        peak = highest(step.moments)
        return RankPeak(rank, stage.number, peak, step.traced, step.moments, in_ram=step.in_ram)

    def held(self, stage: Stage, rank: int) -> Held:
        """The bytes that a rank of a stage holds all through the step."""
        replica, tensor = divmod(rank, self.plan.tp)
        return held_bytes(self._weights_of(tensor), self.settings, self.plan, stage, replica)

    def _weights_of(self, tensor: int) -> tuple[PlacedWeight, ...]:
        """The weights of a rank's share of the whole model, by its rank of the tensor-parallel group."""
        if tensor not in self._weights:
            share = self.plan.share(self.model, tensor)
            rows = shape_pass(share, self.settings.request(self.model)).rows
            self._weights[tensor] = tuple(placed_weights(share, rows, self.settings.width))
        return self._weights[tensor]


def least_bytes(known: TracedModel, settings: MemorySettings, plan: Plan) -> Number:
    """A lower bound of the largest rank's bytes, without tracing a pass.

    In training: the first rank during the optimizer's step, else the weights of a stage. Raises ArchError for
    a plan that the model cannot have.
    """
    plan.check(known.model, settings)
    if settings.phase == "train":
        return _least_trained(known, settings, plan)
    if settings.offload is not None:
        return 0
    share = known.share(replace(plan, pp=1), 0)
    bits = stored_bits(share, settings.dtype, settings.engine or ANY_ENGINE)
    by_layers, split = settings.splits_layers, settings.split
    stages = stages_of(plan, layer_count(known.model), with_head=by_layers, split=split)
    in_ram = in_ram_bytes(share.inferring, settings, share, has_head=False)
    return max(bytes_of_stage(bits, stage) for stage in stages) - in_ram


def _least_trained(known: TracedModel, settings: MemorySettings, plan: Plan) -> Number:
    from archcli.wings.serving.memory.training.step import held_alone, optimizer_moment  # of training alone

    if plan.devices == 1:
        return optimizer_moment(held_alone(known.model, settings, known)).bytes
    stage, *_ = stages_of(plan, layer_count(known.model), with_head=settings.splits_layers)
    return optimizer_moment(_TrainedRanks(known.model, settings, plan).held(stage, 0)).bytes


def held_bytes(
    weights: tuple[PlacedWeight, ...], settings: MemorySettings, plan: Plan, stage: Stage, rank: int
) -> Held:
    """The bytes that a rank holds all through the step, under the plan's stage of ZeRO."""
    from archcli.wings.serving.memory.training.held import Held  # of training alone

    from_ram, sharded = settings.offloads("parameters"), plan.zero == OF_WEIGHTS
    sharing = 0 if sharded and settings.offloads("optimizer") else plan.replicas
    width, summed = settings.width, settings.gradient_width
    elements, whole = shares(plan, weights, stage, rank), shares(replace(plan, zero=0), weights, stage)
    held = Held(
        elements.weights * settings.trained_width,
        elements.gradients * summed,
        optimizer_bytes(weights, settings, plan, stage, rank),
        gathered(plan, weights, stage, from_ram=from_ram).bytes(Widths(width, summed), sharing)
        if sharded or from_ram
        else {},
        (elements.gradients * summed, max(whole.gradients, 1) * width),
        in_flight(plan, stage.number),
        plan.virtual_stages,
        plan.sums_gradients(settings),
        splits_words=plan.tp > 1,
    )
    return held if settings.offload is None else held.offloaded(settings, plan, held.gathered)


def optimizer_bytes(
    weights: tuple[PlacedWeight, ...], settings: MemorySettings, plan: Plan, stage: Stage, rank: int = 0
) -> OptimizerBytes:
    """The optimizer's bytes, of shards of tensors; with ZeRO 1 and 2 of a part of one flat vector."""
    # of training alone
    from archcli.wings.serving.memory.training.optimizers import TrainedTensor, optimizer

    rule, width = optimizer(settings.optimizer, settings.backend), int(settings.trained_width)
    summed = settings.gradient_width
    if plan.zero in {1, 2}:
        return rule.state(
            [TrainedTensor((shares(plan, weights, stage, rank).states,), width, summed_width=summed)]
        )
    tensors = [
        TrainedTensor(shape, width, count, bool(weight.layers) and len(shape) == MATRIX, summed)
        for weight, shape, count in local_shapes(
            plan if plan.zero else replace(plan, dp=1, cp=1, ep=1), weights, stage, rank if plan.zero else 0
        )
        if weight.trained
    ]
    return rule.state(tensors)


def distinct_stages(stages: tuple[Stage, ...]) -> Iterator[Stage]:
    """All stages of a short pipeline; of a long one the first two, a middle one and the last two."""
    few = 8
    if len(stages) <= few:
        yield from stages
        return
    yield from (*stages[:2], stages[len(stages) // 2], *stages[-2:])


def _ends(ranks: int) -> tuple[int, ...]:
    return (0,) if ranks == 1 else (0, ranks - 1)
