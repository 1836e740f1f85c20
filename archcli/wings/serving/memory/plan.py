"""Devices and plans: a device's memory, and degrees of parallelism with their conditions on a model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from math import gcd, isqrt
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from archcli.arith import is_whole
from archcli.errors import ArchError, Problem, either
from archcli.modules import Mixer, Model
from archcli.modules.attention.mixer import READS_LAYER
from archcli.modules.models.stack import stacks
from archcli.modules.spec.arguments import Schedule, ZeroStage
from archcli.modules.spec.base import find
from archcli.modules.spec.degrees import Degrees
from archcli.modules.spec.values import AboveZero
from archcli.wings.serving.memory.settings import DEFAULT_TOKENS, MemorySettings

if TYPE_CHECKING:
    from archcli.measure.kvcache.engine import InferenceEngine
    from archcli.modules.spec.arguments import EngineName

OF_GRADIENTS, OF_WEIGHTS = 2, 3
"""The stages of ZeRO that shard gradients, and weights."""
DEVICES_PER_NODE = 8
"""Default devices of a node: those of an HGX or OAM board."""


MOST_DEVICES = 1_000_000
"""The largest degree: beyond all clusters, and a bound for searches."""
MOST_SHARING = 1024
"""The most devices to try for sharing a matrix: more than any known model has heads."""


Family = Literal["gpu", "metal", "cpu"]


class DeviceMemory(NamedTuple):
    """A device to fit into, or several alike.

    memory_bytes: of each; with `utilization` below 1 the share that an engine takes.
    architecture: such as sm_90. certainty: A, B or C, with its source. stated: memory alone, such as 80GiB.
    family: a kind of device with a backend in llama.cpp.
    per_node: devices joined by a link. of_servers: the link is one of servers.
    figures: names of the figures in its file; None without one.
    unlike: each of several unlike devices, which stages take in turn; `memory_bytes` is their mean.
    platform: its architecture, else its maker and kind: Intel gpu; empty where unknown.
    free_bytes: what other programs leave of each, a desktop among them; None where all of it is free.
    in_all_bytes: of each, free or not.
    """

    name: str
    memory_bytes: int
    n_devices: int = 1
    architecture: str = ""
    certainty: str = ""
    source: str = ""
    stated: bool = False
    family: Family = "gpu"
    utilization: float = 1.0
    per_node: int = DEVICES_PER_NODE
    figures: frozenset[str] | None = None
    of_servers: bool = False
    unlike: tuple[DeviceMemory, ...] = ()
    platform: str = ""
    free_bytes: int | None = None
    in_all_bytes: int | None = None

    @property
    def usual_engine(self) -> EngineName:
        """The engine that people serve with on it: llama.cpp on Macs, CPUs and unlike cards."""
        return "vllm" if self.family == "gpu" and not self.unlike else "llamacpp"

    @property
    def has_ram_alone(self) -> bool:
        """Whether its memory is the RAM: that of a Mac or a CPU, on which people serve with llama.cpp."""
        return self.family != "gpu"

    def of_stage(self, number: int) -> DeviceMemory:
        """The device of a stage."""
        return self.unlike[number] if self.unlike else self

    @property
    def usual_dtype(self) -> str:
        """The default dtype: bf16, or fp16 on a device that states a peak of it and none of bf16."""
        figures = self.figures or ()
        return "fp16" if "fp16_tflops" in figures and "bf16_tflops" not in figures else "bf16"

    def taken_by(self, engine: InferenceEngine, utilization: float | None = None) -> DeviceMemory:
        """The memory that an engine takes of a device; of a stated amount all, unless a share is stated."""
        share = utilization or (1.0 if self.stated else engine.utilization)
        taken = int(self.memory_bytes * share)
        if self.free_bytes is not None and self.free_bytes < taken:
            taken, share = self.free_bytes, self.free_bytes / self.memory_bytes
        unlike = tuple(device.taken_by(engine, utilization) for device in self.unlike)
        return self._replace(memory_bytes=taken, utilization=share, unlike=unlike)


@dataclass(frozen=True, slots=True)
class Plan:
    """Degrees of parallelism, whose product is the number of devices: dp x cp x tp x pp.

    dp: replicas, each with a batch of its own.
    zero: shards over them the optimizer's states (1), gradients too (2), weights too (3, FSDP2):
        arXiv:1910.02054.
    tp: devices that share each matrix. sp: they share the tokens of norms and residuals as well.
    pp: stages, which have the layers one after the other and pass on `micro_batches` by a `schedule`.
    virtual_stages: groups of layers of each stage in an interleaved schedule (arXiv:2104.04473).
    ep: devices within a stage that share the experts. Of the devices of tp each expert is divided among those
        that ep leaves: moe_tp x moe_ep in TensorRT-LLM.
    cp: devices that share the tokens of a sequence.
    dp_attention: groups of the devices of tp, each of which has whole attention, and a cache and sequences
        of its own; all share the feed-forward networks (SGLang's --enable-dp-attention).
    """

    dp: AboveZero = 1
    zero: ZeroStage = 0
    tp: AboveZero = 1
    sp: bool = False
    pp: AboveZero = 1
    micro_batches: AboveZero = 1
    schedule: Schedule = "1f1b"
    virtual_stages: AboveZero = 1
    ep: AboveZero = 1
    cp: AboveZero = 1
    dp_attention: AboveZero = 1

    @property
    def devices(self) -> int:
        """The number of devices."""
        return self.dp * self.cp * self.tp * self.pp

    @property
    def replicas(self) -> int:
        """The number of devices with the same part of the model, over which ZeRO shards it."""
        return self.dp * self.cp

    @property
    def expert_replicas(self) -> int:
        """The number of devices with the same experts, or with the same part of them."""
        return self.dp * self.cp * self.tp // max(self.tp, self.ep)

    @property
    def batches(self) -> int:
        """The number of groups of devices with sequences of their own."""
        return self.dp * self.dp_attention

    @property
    def degrees(self) -> Degrees:
        """How the devices of a stage split a model."""
        return Degrees(self.tp // self.dp_attention, self.sp, self.ep, groups=self.dp_attention)

    @property
    def waited(self) -> float:
        """Micro batches of waiting while the pipeline fills and drains: (p - 1) / v.

        arXiv:2104.04473 section 2.2; p stages, v groups of layers in each.
        """
        return (self.pp - 1) / self.virtual_stages

    def micro_batches_of(self, settings: MemorySettings) -> int:
        """Micro batches that a replica runs in a training step; one pass of any other phase."""
        return self.micro_batches * settings.grad_accum if settings.phase == "train" else 1

    def sums_gradients(self, settings: MemorySettings) -> bool:
        """Whether gradients are added to a buffer that is alive throughout the last micro batch."""
        # of gradients in fp32 Megatron-LM and DeepSpeed keep one; FSDP2 scatters what it has reduced
        in_buffer = settings.gradient_width > settings.trained_width and self.zero != OF_WEIGHTS
        return in_buffer or self.micro_batches_of(settings) > 1

    def of_replica(self, settings: MemorySettings) -> MemorySettings:
        """The settings of a replica or group: in training its micro batch, else its part of all sequences."""
        if settings.phase == "train" or self.batches == 1:
            return settings
        # rounded up: the one with most sequences decides
        return replace(settings, batch_size=-(-settings.batch_size // self.batches))

    def batches_at_once(self, settings: MemorySettings) -> int:
        """Batches of a replica in different stages at once; 1 where all sequences go together."""
        return 1 if settings.splits_layers else self.pp

    def of_stage(self, settings: MemorySettings, tokens: int) -> MemorySettings:
        """The settings of a pass of one stage, with sequences of so many tokens.

        In inference a replica's sequences are in several batches, which go through the stages one after the
        other: as many as there are stages, and in a prefill one for each chunk of tokens.
        """
        mine = self.of_replica(settings)
        if settings.phase == "train" or self.batches_at_once(settings) == 1:
            return mine
        decodes = settings.phase == "decode" or settings.verifies
        chunk = mine.chunk or DEFAULT_TOKENS
        chunks = 0 if decodes else mine.batch_size * tokens // chunk
        batches = min(mine.batch_size, max(self.pp, chunks))
        return replace(mine, batch_size=-(-mine.batch_size // batches))

    def inputs(self) -> dict[str, Any]:
        """The plan by JSON's keys."""
        return asdict(self)

    def share(self, model: Model, rank: int = 0) -> Model:
        """The model of one rank of the tensor-parallel group."""
        if self.is_whole:
            return model
        from archcli.modules.tensor_parallel.shard import shard  # of several devices alone

        tp, sp, ep, _, groups = self.degrees
        # whether an engine copies experts is a question of `check`
        return shard(model, tp, sp=sp, ep=ep, rank=rank % tp, groups=groups, copies_experts=True)

    @property
    def is_whole(self) -> bool:
        """Whether every device has whole matrices and all experts."""
        return (self.tp, self.sp, self.ep) == (1, False, 1)

    def check(self, model: Model, settings: MemorySettings | None = None) -> None:
        """Raise ArchError with every reason against the plan, each with a hint.

        With settings also if their tokens cannot be shared.
        """
        problems = [*self._check_range()] or [
            *self._check_degrees(model, settings),
            *self._check_replicas(model, settings),
            *self._check_stages(model),
            *self._check_tokens(model),
            *(self._check_passes(model, settings) if settings else ()),
        ]
        if problems:
            raise ArchError(problems)

    def suits(self, model: Model, settings: MemorySettings | None = None) -> bool:
        """Whether `check` finds nothing."""
        try:
            self.check(model, settings)
        except ArchError:
            return False
        return True

    def _check_range(self) -> Iterator[Problem]:
        for name, value in self.inputs().items():
            if name in {"zero", "sp", "schedule"} or 1 <= value <= MOST_DEVICES:
                continue
            if value < 1:
                yield Problem(f"{name} {value} is below 1", "1 is the least", path=name)
            else:
                yield Problem(f"{name} {value} is above {MOST_DEVICES:,}", f"give {name} fewer", path=name)

    def _check_degrees(self, model: Model, settings: MemorySettings | None) -> Iterator[Problem]:
        if self.tp % self.dp_attention:
            what = f"dp_attention {self.dp_attention} does not divide tp {self.tp}"
            would = [str(n) for n in divisors(self.tp)[1:]]
            hint = f"{either(would)} would do" if would else f"tp {self.dp_attention} or a multiple of it"
            yield Problem(what, hint, path="dp_attention")
            return
        if self.is_whole:
            return
        from archcli.modules.tensor_parallel.checks import check_degrees  # of several devices alone

        try:
            engine = settings.engine if settings else None
            check_degrees(model, self.degrees, copies_experts=bool(engine and engine.redundant_experts))
        except ArchError as error:
            yield from error.problems

    def _check_replicas(self, model: Model, settings: MemorySettings | None) -> Iterator[Problem]:
        """Check ZeRO and experts against the number of devices to share over."""
        if self.zero and self.replicas == 1:
            what = f"zero {self.zero} shards over the devices of dp and cp, and there is one"
            yield Problem(what, "state dp or cp, or leave zero out", path="zero")
        group = self.replicas * self.tp

        def suits(ep: int) -> bool:
            return Plan(ep, tp=self.tp, ep=ep).suits(model, settings)

        if self.ep > 1 and group % self.ep and suits(self.ep):
            would = [n for n in divisors(group)[1:] if suits(n)]
            dp = self.dp * self.ep // gcd(self.ep, group)
            hint = f"{either(map(str, would))} would do" if would else f"dp {dp} would do"
            what = f"ep {self.ep} does not divide the {group} devices of a stage, dp x cp x tp"
            yield Problem(what, hint, path="ep")

    def _check_stages(self, model: Model) -> Iterator[Problem]:
        """Check the layers, micro batches and groups of layers of a pipeline."""
        if self.pp == 1:
            for name, default in (("micro_batches", 1), ("virtual_stages", 1), ("schedule", "1f1b")):
                if getattr(self, name) != default:
                    # a pipeline is stated by pp alone; an interleaved one needs the other two as well
                    hint = "state pp, or " if name == "micro_batches" else ""
                    yield Problem(
                        f"{name} needs a pipeline, and pp is 1", f"{hint}leave {name} out", path=name
                    )
            return
        if len([*stacks(model)]) > 1:
            what = "an encoder-decoder is not cut into stages: all of its decoder reads the encoder"
            yield Problem(what, "leave pp out", path="pp")
            return
        layers, parts = n_stacked_layers(model), self.pp * self.virtual_stages
        if parts > layers:
            stages = f"pp {self.pp}" + (f" x {self.virtual_stages} virtual stages" if parts > self.pp else "")
            most, groups = layers // self.virtual_stages, layers // self.pp
            hint = f"pp {most} at most" if most > 1 else f"virtual_stages {groups} at most"
            yield Problem(f"{stages} is more than {layers} layers", hint, path="pp")
        yield from self._check_schedule()
        yield from _across_stages(model)

    def _check_schedule(self) -> Iterator[Problem]:
        interleaved = self.schedule == "interleaved"
        if interleaved and self.virtual_stages == 1:
            hint = "state virtual_stages, 2 or more"
            yield Problem("interleaved stages have several groups of layers", hint, path="virtual_stages")
        if not interleaved and self.virtual_stages > 1:
            what = "virtual_stages needs schedule interleaved"
            hint = "leave virtual_stages out, or state schedule with micro_batches, a multiple of pp"
            yield Problem(what, hint, path="virtual_stages")
        if interleaved and self.micro_batches % self.pp:
            below = self.micro_batches - self.micro_batches % self.pp
            would = either(str(n) for n in (below, below + self.pp) if n)
            what = f"micro_batches {self.micro_batches} is no multiple of pp {self.pp}, as interleaving needs"
            yield Problem(what, f"{would} would do", path="micro_batches")

    def _check_tokens(self, model: Model) -> Iterator[Problem]:
        """Check that no layer needs all tokens of a sequence where context parallelism shares them."""
        if self.cp > 1:
            for path, mixer in find(model, Mixer):
                if mixer.facts(model.d_model).recurrence is not None:
                    what = "cp shares the tokens of attention, and a recurrence reads them in turn"
                    yield Problem(what, "leave cp out", path=path)
                    break

    def _check_passes(self, model: Model, settings: MemorySettings) -> Iterator[Problem]:
        """Check the number of tokens that context and sequence parallelism share."""
        tokens = settings.tokens(model)
        if not is_whole(tokens):  # symbols and arrays are shared by shape
            return
        if settings.phase == "train" and tokens % self.cp:
            would = [n for n in range(2, min(tokens, 4096) + 1) if tokens % n == 0][:8]
            hint = f"{either(map(str, would))} would do" if would else "leave cp out"
            yield Problem(f"cp {self.cp} does not divide {tokens:,} tokens", hint, path="cp")
        elif self.sp:
            from archcli.modules.tensor_parallel.checks import unshared_tokens  # of sp alone

            lengths = {"seq_len": tokens, "past": settings.past, "chunk": settings.chunk or 0}
            yield from unshared_tokens(settings.phase, lengths, self.tp, self.cp)


ONE_DEVICE = Plan()


def n_stacked_layers(model: Model) -> int:
    """Layers that a pipeline cuts into stages; of an encoder-decoder those of its encoder."""
    (_, stack), *_ = stacks(model)
    return sum(group.n_layers for group in stack.groups)


def divisors(number: int) -> list[int]:
    """The divisors of a number in order; none of 0."""
    small = [n for n in range(1, isqrt(number) + 1) if number % n == 0]
    return small + [number // n for n in reversed(small) if n * n != number]


def _across_stages(model: Model) -> Iterator[Problem]:
    """Problems of models whose layers share something across stages."""
    (_, stack), *_ = stacks(model)

    def lent(mixer: Mixer, name: str) -> bool:
        return getattr(mixer.facts(model.d_model), name) is not None

    shared = {
        "shared": bool(stack.shared),
        "tie": any(group.tie for group in stack.groups),
        **{name: any(lent(mixer, name) for _, mixer in find(model, Mixer)) for name in READS_LAYER},
        "score_bias": stack.score_bias is not None,
        "relative": stack.relative is not None,
        "per_layer_embedding": model.layer_embedding is not None,
    }
    for name, present in shared.items():
        if present:
            yield Problem(f"layers of different stages would share {name}", "leave pp out", path="pp")


def wider_plans(
    plan: Plan, model: Model, settings: MemorySettings, n_devices: int
) -> Iterator[tuple[str, Plan]]:
    """Plans of more of the devices, the widest first, each with the options that change."""
    most = n_devices // plan.devices
    if settings.phase != "train":
        stages, sharing = n_stacked_layers(model) // plan.pp, MOST_SHARING // plan.tp
        most = min(most, stages if settings.splits_layers else sharing)
    for times in range(most, 1, -1):
        if settings.phase == "train":
            dp = plan.dp * times
            yield f"--dp {dp} --zero 3", replace(plan, dp=dp, zero=3)
        elif settings.splits_layers:
            pp = plan.pp * times
            yield f"--pp {pp}", replace(plan, pp=pp)
        else:
            tp = plan.tp * times
            yield f"--tp {tp}", replace(plan, tp=tp)
