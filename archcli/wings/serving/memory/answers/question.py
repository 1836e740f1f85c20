"""MemoryQuestion: a model, its settings, plan and device; and the checks of a question."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from math import floor
from typing import Any, Literal, NamedTuple

from archcli.errors import ArchError, Problem, closest, either, quote
from archcli.graph.kept import FP32
from archcli.measure.kvcache.engine import CACHING, NO_ENGINE
from archcli.measure.notes import context_notes, flex_notes, source_notes, unfused_notes
from archcli.measure.weights.stored_bytes import broken_notes
from archcli.modules import Model
from archcli.modules.models.layers import folded_path
from archcli.units import binary_bytes
from archcli.wings.serving.memory.beyond.drafts import HeldDraft
from archcli.wings.serving.memory.beyond.engine import of_engine_alone, storages
from archcli.wings.serving.memory.parts.beside import Needed, RankBytes, SummedBytes, is_summed, largest
from archcli.wings.serving.memory.plan import ONE_DEVICE, DeviceMemory, Plan, wider_plans
from archcli.wings.serving.memory.ranks import (
    BeyondModel,
    RankPeak,
    beyond_model,
    rank_peaks,
    workspace_bytes,
)
from archcli.wings.serving.memory.reserved.reserves import reserves_of
from archcli.wings.serving.memory.settings import DEFAULT_TOKENS, MemorySettings
from archcli.wings.serving.memory.traced import TracedModel

Fit = Literal["batch", "context", "rank", "recompute", "devices"]
"""What `--fit` looks for: the largest batch, context or rank, a recomputation, or the fewest devices."""


class MemoryAnswer(NamedTuple):
    """The peaks of a plan's ranks, the largest first, and what its device holds beyond the model.

    `ram_bytes` of the `ram_limit` are in RAM of an offload.
    """

    ranks: tuple[RankPeak, ...]
    beyond: BeyondModel
    ram_bytes: int = 0
    ram_limit: int = 0

    def fits(self, device: DeviceMemory | None) -> bool:
        """Whether it fits into a device, and into RAM; there must be a device."""
        return self.lacking(device) <= 0

    def lacking(self, device: DeviceMemory | None) -> int:
        """Bytes missing on a device or in RAM, the larger of both; negative where bytes are left."""
        of_device = self.needed_bytes - (0 if device is None else self.device_of(device).memory_bytes)
        return max(of_device, self.ram_lacking) if self.ram_limit else of_device

    @property
    def ram_lacking(self) -> int:
        """Bytes missing in RAM; 0 where its size is not stated."""
        return self.ram_bytes - self.ram_limit if self.ram_limit else 0

    def device_of(self, device: DeviceMemory) -> DeviceMemory:
        """The device of the largest rank."""
        return device.of_stage(self.largest.stage)

    @property
    def largest(self) -> RankPeak:
        """The rank with the most bytes at its peak; of unlike devices that with the fewest bytes left."""
        return self.ranks[0]

    @property
    def peak_bytes(self) -> int:
        """Bytes at the peak of the largest rank, without what is beyond the model."""
        return int(self.largest.peak.bytes)

    @property
    def needed_bytes(self) -> int:
        """Bytes that a device must have: the peak and what is beyond the model, at its upper end."""
        return self.peak_bytes + self.beyond.bytes


@dataclass(frozen=True, slots=True)
class MemoryQuestion:
    """The question how much memory a model takes with these settings and this plan.

    `known` keeps the traced passes of the model; a question and those `changed` from it share it. `again`
    asks the same with other options, {"dtype": "q4_k_m"}, from the command on. `draft` lies beside the model.
    """

    model: Model
    settings: MemorySettings
    plan: Plan = ONE_DEVICE
    device: DeviceMemory | None = None
    known: TracedModel | None = field(default=None, compare=False, repr=False)
    again: Callable[..., MemoryQuestion] | None = field(default=None, compare=False, repr=False)
    draft: HeldDraft | None = None
    _sums: dict[int, SummedBytes] = field(default_factory=dict, init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.known is None or self.known.model is not self.model:
            object.__setattr__(self, "known", TracedModel(self.model))

    def answer(self) -> MemoryAnswer:
        """Trace the passes. Raises ArchError for settings or a plan that the model cannot have."""
        return self.answer_with(self.ranks())

    def ranks(self) -> tuple[RankPeak, ...]:
        """The peaks of the plan's ranks, the largest first, on whatever device."""
        known, key = self.traced, ("ranks", self.settings, self.plan)
        peaks = known.once(key, lambda: rank_peaks(known, self.settings, self.plan))
        if self.draft is not None:
            peaks = self.draft.beside_ranks(peaks, self.model, self.settings, self.plan)

        def lacking(rank: RankPeak) -> float:
            unlike = self.device is not None and self.device.unlike
            return float(rank.peak.bytes) - (unlike[rank.stage].memory_bytes if unlike else 0)

        return tuple(sorted(peaks, key=lacking, reverse=True))

    def answer_with(self, ranks: tuple[RankPeak, ...]) -> MemoryAnswer:
        """The answer, of ranks that are traced already."""
        beyond = beyond_model(
            self.settings.backend,
            self.device.architecture if self.device else "",
            training=self.settings.phase == "train",
            # devices with whole layers copy from one to the next, without a communicator
            n_devices=1 if self.settings.splits_layers else self.plan.devices,
            n_storages=storages(ranks[0]),
            of_engine=tuple(of_engine_alone(self.settings, self.model, ranks[0])),
        )
        offload = self.settings.offload
        if offload is None:
            return MemoryAnswer(ranks, beyond)
        return MemoryAnswer(ranks, beyond, self._in_ram(ranks)["ram_bytes"], offload.host.bytes)

    def offload_totals(self, answer: MemoryAnswer) -> dict[str, Any]:
        """What an offload leaves in RAM, by JSON's key; empty without one."""
        return {} if self.settings.offload is None else {"offload": self._in_ram(answer.ranks)}

    def draft_totals(self) -> dict[str, Any]:
        """The bytes of the draft on a device, by JSON's keys; empty without one."""
        return {} if self.draft is None else self.draft.totals(self.model, self.settings, self.plan)

    def _in_ram(self, ranks: tuple[RankPeak, ...]) -> dict[str, Any]:
        from archcli.wings.serving.memory.answers.ram import ram_record  # of an offload alone

        return ram_record(self.traced, self.settings, self.plan, ranks, self.device)

    @property
    def traced(self) -> TracedModel:
        """The model with its traced passes."""
        return self.known or TracedModel(self.model)

    def fits(self) -> bool:
        """Whether it fits into the device; there must be one."""
        return self.lacking() <= 0

    def lacking(self, tokens: int | None = None) -> int:
        """Bytes that the device lacks, or the RAM beside it, at so many tokens; below 0 what is left."""
        return self.needed(tokens).lacking(self.device)

    def needed(self, tokens: int | None = None) -> MemoryAnswer | Needed:
        """The largest rank's bytes alone; of serving by what questions of the same model have counted."""
        settings, device, at = self.settings, self.device, tokens or self.settings.seq_len
        if not self._sums:
            if not is_summed(settings, self.model):
                return (self if tokens is None else self.changed(seq_len=tokens)).answer()
            architecture = device.architecture if device else ""
            workspace = 0 if settings.backend == "cpu" else workspace_bytes(architecture)
            self._sums[workspace] = SummedBytes.of(self.traced, settings, self.plan, workspace)
        ((workspace, sums),) = self._sums.items()

        def count() -> list[RankBytes]:
            question = replace(self.changed(seq_len=at), draft=None)
            return [question._bytes(rank, workspace) for rank in question.ranks()]  # noqa: SLF001

        if self.draft is None and not (device and device.unlike):
            return sums.needed(at, count)
        ranks = sums.ranks(at, count)
        if self.draft is not None:
            ranks = self.draft.added(ranks, self.model, replace(settings, seq_len=at), self.plan)
        return largest(ranks, device)

    def _bytes(self, rank: RankPeak, workspace: int) -> RankBytes:
        weights, beyond = rank.peak.weights + rank.peak.adapters, self.answer_with((rank,)).beyond.bytes
        return RankBytes(rank.stage, rank.rank, weights, int(rank.peak.bytes - weights), beyond - workspace)

    def counted(self) -> list[int]:
        """The contexts whose bytes need no further pass, from the shortest on."""
        return sorted(tokens for sums in self._sums.values() for tokens in sums.contexts)

    def changed(self, **settings: Any) -> MemoryQuestion:
        """This question with other settings."""
        return replace(self, settings=replace(self.settings, **settings))


OF_TRAINING = ("optimizer", "recompute", "loss", "grad_accum", "gradients")
OF_MATRICES = ("tp", "sp", "ep", "dp_attention")
OF_TRAINING_PLANS = ("micro_batches", "schedule", "virtual_stages", "cp", "zero")
DEFAULTS = MemorySettings()
CACHE_TWICE = "The pass copies the cache into a longer one: until that is complete, both take memory."
ENGINES = (
    "Serving: the cache counts once, as engines allocate it once and write in place, and attention of any "
    "kind runs in one kernel, which holds no scores of all pairs."
)
DDP = "dp without zero is DDP with gradient_as_bucket_view, which holds no second copy of the gradients."
NO_HEAD = "The model has no head: the backward begins at its hidden states, and no loss is counted."
UNTRAINED = (
    "Quantized weights are not trained: their gradients and states count as if they were; --method qlora "
    "trains adapters beside them."
)
SHOWN = 3


def check_question(question: MemoryQuestion) -> None:
    """Raise ArchError with all that is wrong, before anything is traced."""
    settings, model = question.settings, question.model
    _ = settings.width  # refuses a type that torch computes nothing in
    problems = [
        *_of_phase(settings, model),
        *_of_devices(question),
        *(_of_training(settings, model) if settings.phase == "train" else ()),
    ]
    if problems:
        raise ArchError(problems)


def _of_phase(settings: MemorySettings, model: Model) -> Iterator[Problem]:
    phase = settings.phase
    if phase != "train":
        for name in OF_TRAINING:
            if getattr(settings, name) != getattr(DEFAULTS, name):
                option = f"--{name.replace('_', '-')}"
                yield Problem(
                    f"{option} applies to training only, and the phase is {phase}", f"leave {option} out"
                )
        if not model.caches and phase != "forward":
            what = "an encoder has no cache to fill and generates nothing"
            yield Problem(what, "--phase forward runs it once, --phase train trains it")
    if settings.chunk is not None and phase not in {"prefill", "serve"}:
        hint = ("ask for --phase prefill or serve, or " if model.caches else "") + "leave --chunk out"
        yield Problem(f"--chunk cuts a prefill into pieces, and the phase is {phase}", hint)
    if settings.past and phase != "prefill":
        yield Problem(
            f"past applies to a prefill only, and the phase is {phase}", "seq_len counts all tokens"
        )


def _of_devices(question: MemoryQuestion) -> Iterator[Problem]:
    device, plan = question.device, question.plan
    if device is not None and 1 < device.n_devices < plan.devices:
        what = f"the plan takes {plan.devices:,} devices, and there are {device.n_devices:,}"
        yield Problem(what, f"--device {plan.devices}x{device.name}, or a smaller plan")
    yield from _of_split(question)
    if device is not None and device.unlike and not question.settings.splits_layers:
        runs = "training" if question.settings.phase == "train" else "one pass"
        engine = question.settings.engine or NO_ENGINE
        title = runs if engine.name == "none" else engine.title
        what = f"{device.name}: {title} takes equal devices, and these are unlike"
        yield Problem(what, "--phase serve --engine llamacpp, which gives each whole layers")
    if question.settings.phase == "train" and plan.dp_attention > 1:
        what = "--dp-attention shares a model that is served, and the phase is train"
        yield Problem(what, "leave --dp-attention out: --dp has whole replicas")
    if question.settings.phase != "train":
        for name in OF_TRAINING_PLANS:
            if getattr(plan, name) != getattr(ONE_DEVICE, name):
                option = f"--{name.replace('_', '-')}"
                what = f"{option} applies to training only, and the phase is {question.settings.phase}"
                yield Problem(what, f"leave {option} out: tp, pp, ep and dp share a model that is served")


def _of_split(question: MemoryQuestion) -> Iterator[Problem]:
    """Degrees that split a layer, of an engine that gives each device whole layers."""
    engine, plan = question.settings.engine or NO_ENGINE, question.plan
    split = [name for name in OF_MATRICES if getattr(plan, name) != getattr(ONE_DEVICE, name)]
    if engine.splits_layers and split:
        option = f"--{split[0].replace('_', '-')}"
        what = f"{option} splits layers, which {engine.title} gives to devices whole (--split-mode layer)"
        yield Problem(what, f"--pp {max(plan.devices, 2)}", path=split[0])


def _of_training(settings: MemorySettings, model: Model) -> Iterator[Problem]:
    from archcli.wings.serving.memory.training.losses import parse_loss  # of training alone

    form = parse_loss(settings.loss)
    tokens = settings.batch_size * settings.tokens(model)
    if form.kind == "chunked" and form.pieces > tokens:
        what = f"--loss chunked:{form.pieces} cuts {tokens:,} tokens into more chunks than there are"
        yield Problem(what, f"chunked:{tokens} at most")
    if form.has_head and model.output_head is None:
        yield Problem(f"--loss {settings.loss} runs the model's head, and it has none", "leave --loss out")
    yield from _unmatched(settings.recompute, model)
    yield from _of_gradients(settings)


def _of_gradients(settings: MemorySettings) -> Iterator[Problem]:
    """A problem of gradients in another dtype than the weights, which few recipes have."""
    if settings.gradients in {None, settings.dtype}:
        return
    from archcli.wings.serving.memory.training.optimizers import OPTIMIZERS, optimizer  # of training alone

    if settings.gradients != "fp32":
        what = f"--gradients {settings.gradients} of weights in {settings.dtype}"
        yield Problem(what, f"fp32, or leave it out for {settings.dtype}")
    elif not optimizer(settings.optimizer).has_masters:
        what = f"{settings.optimizer} updates weights in {settings.dtype} by gradients of the same dtype"
        known = " or ".join(name for name, rule in OPTIMIZERS.items() if rule.has_masters)
        yield Problem(f"{what}, and --gradients is fp32", f"--optimizer {known}, or leave --gradients out")


def _unmatched(setting: str, model: Model) -> Iterator[Problem]:
    """A problem for each pattern that no path matches."""
    if setting in {"none", "layer"}:
        return
    from archcli.wings.serving.memory.training.losses import (  # of training alone
        KEEP,
        module_paths,
        recomputed,
    )

    paths = module_paths(model)
    parts = dict.fromkeys(map(str.strip, setting.split(",")))
    if all(part == "none" or part.startswith(KEEP) for part in parts):
        yield Problem(f"--recompute {setting}: nothing is recomputed that could keep", f"layer,{setting}")
        return
    for part in parts:
        rule = recomputed(part.removeprefix(KEEP))
        if part == "none" or (rule is not None and any(map(rule, paths))):
            continue
        if part == "attention":
            yield Problem("--recompute attention: no layer has softmax attention", "--recompute layer")
            continue
        known = dict.fromkeys(folded_path(path) for path in paths)
        near = closest(part, known) or [path for path in known if "layers.*." in path]
        hint = f"none, attention, layer, or a pattern such as {either(near[:SHOWN])}"
        yield Problem(f"--recompute {quote(part)} matches no module or operation", hint)


def question_notes(question: MemoryQuestion) -> Iterator[str]:
    """What a reader must know of the question."""
    settings, model, plan = question.settings, question.model, question.plan
    tokens = settings.tokens(model)
    yield from context_notes(model, tokens)
    yield from source_notes(model, settings.source_len)
    yield from broken_notes(model)
    if settings.execution().flex:
        yield from flex_notes(question.traced.trained_rows(settings.request(model)))
    if settings.phase in CACHING and model.caches:
        yield from _of_engine(question)
    if settings.phase == "train" and model.output_head is None:
        yield NO_HEAD
    adapts = model.lora is not None and model.lora.adapts
    if settings.phase == "train" and model.quantization is not None and not adapts:
        yield UNTRAINED
    if plan.dp > 1 and not plan.zero and settings.phase == "train":
        yield DDP
    yield from _idle_devices(question)
    yield from idle_replicas(settings, plan)


def _of_engine(question: MemoryQuestion) -> Iterator[str]:
    """How the cache is held; and of eager torch, which layers an engine runs in one kernel."""
    settings, engine = question.settings, question.settings.engine or NO_ENGINE
    if not engine.serves:
        if settings.phase != "serve":
            yield CACHE_TWICE
        yield from unfused_notes(question.model)
        return
    yield ENGINES
    if reserves_of(engine).copies and settings.phase != "decode":
        new = min(settings.chunk or DEFAULT_TOKENS, settings.tokens(question.model))
        size = binary_bytes(int(FP32 * new * question.model.vocab_size))
        yield f"Older builds, llama-bench, llama-cpp-python: logits of all {new:,} tokens, {size} more."
    device = question.device
    if device is not None and device.free_bytes is not None and device.utilization < engine.utilization < 1:
        share = floor(100 * device.utilization) / 100
        yield f"{engine.title} begins with a share of {share:g} at most (--utilization): no more is free."
    if engine.in_ram:
        yield f"{engine.title} leaves in RAM: {', '.join(engine.in_ram)}; a tied one is on the device, too."


def _idle_devices(question: MemoryQuestion) -> Iterator[str]:
    device, plan = question.device, question.plan
    if device is None or device.n_devices <= plan.devices:
        return
    plans = wider_plans(plan, question.model, question.settings, device.n_devices)
    options = next((text for text, wider in plans if wider.suits(question.model, question.settings)), "")
    more = f"; {options} would use more of them" if options else ""
    yield f"This plan uses {plan.devices:,} of {device.n_devices:,} devices{more}."


def idle_replicas(settings: MemorySettings, plan: Plan) -> Iterator[str]:
    """A note on replicas of a served model without a sequence."""
    if settings.phase != "train" and settings.batch_size < plan.batches:
        of = f"{settings.batch_size:,} of {plan.batches:,} replicas"
        yield f"{of} have a sequence; the others are idle."
