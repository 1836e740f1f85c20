"""Trainers: what a program that trains holds otherwise than archcli's modules."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from archcli.errors import ArchError, either
from archcli.graph import Row
from archcli.modules import Model
from archcli.modules.adapters.lora import EVERY, HEAD, LoRA
from archcli.modules.models.layers import folded_path
from archcli.modules.spec.values import Conversion, refused
from archcli.ops import (
    Activate,
    Add,
    Attend,
    Linear,
    Lookup,
    Magnitude,
    Multiply,
    Normalize,
    RotaryTable,
    Rotate,
    Scale,
)
from archcli.wings.serving.launches.memory.written import PROJECTIONS, Code

FULL, LORA, QLORA, DORA, FROZEN = "full", "lora", "qlora", "dora", "frozen"
METHODS = (FULL, LORA, QLORA, DORA, FROZEN)
"""Methods of training: all weights, adapters, these beside packed ones, with magnitudes, or few modules."""
PACKED_BY_BITSANDBYTES = ("nf4", "nf4-double")
"""Formats of packed weights that a trainer's products were compared with."""
USUAL_LORA = LoRA(rank=16, targets=(EVERY,))
"""The adapters of a model that states none."""
HELD, STEPS, KEPT, FUSED, SHARED, FLEX = "held", "steps", "kept", "fused", "shared by torch", "flex"
"""Values of the facts `outputs`, `norms`, `packed_inputs`, `projections`, `kernels` and `attention`."""
ALWAYS = ("batch_size", "rank", "seq_len")
"""Options that are said even where they are 1."""
LEFT_OUT = {"0", "1", "None"}
"""Values of an option that need no words."""
SEVERAL = "--trainer fsdp2 or deepspeed"
"""Trainers of the modules of transformers on several devices."""
SHOWN = 3
"""Operations that a note names."""


@dataclass(frozen=True, slots=True)
class Trainer:
    """A program that trains, by the facts of `archcli trainers NAME`.

    norms: in `steps`, RMSNorm is a few functions of torch.
    autocast: the type in which products compute.
    kernels: `fused`, activations, sums and norms run in few kernels, as torch's compiler makes of them.
    attention: `shared by torch`, which then has no kernel for fp32 where heads share keys; `flex`, in one
        kernel of any kind.
    rest: the type of weights beside packed ones.
    adapters, packed_adapters: that of adapters beside plain and packed weights; empty is the model's.
    packed_inputs: `kept` for the backward, which does not read them.
    projections: `fused`, one product makes queries, keys and values.
    outputs: `held`, logits live until the next step has its own.
    reference: `copy`, a frozen model lies beside one whose weights all train.
    sequences: those of each example.
    weights: their type where all of them train; empty is the model's.
    shards: the same where devices share them, which compute in the model's.
    buckets: elements of a buffer in which gradients are reduced.
    zero: stages of ZeRO by which it shares a model among devices; none is one device alone.
    pools: `streams`, FSDP2 gathers and sums in streams of its own, and the allocator has a pool for each.
    reserved: bytes that torch's allocator was seen to reserve beyond those of tensors, as a share of these.
    methods: what it can be asked to train.
    compared: models whose peaks were compared with those of its runs.
    arguments: its own words for an option, or for an option with one value.
    usual: options that it sets where they are left out.
    """

    name: str = "none"
    title: str = "archcli's modules"
    version: str = ""
    norms: str = ""
    kernels: str = ""
    autocast: str = ""
    attention: str = ""
    rest: str = ""
    adapters: str = ""
    packed_adapters: str = ""
    packed_inputs: str = ""
    projections: str = ""
    outputs: str = ""
    reference: str = ""
    sequences: int = 1
    weights: str = ""
    shards: str = ""
    buckets: int = 0
    zero: tuple[int, ...] = ()
    pools: str = ""
    reserved: float = 0.0
    methods: tuple[str, ...] = METHODS
    compared: tuple[str, ...] = ()
    arguments: Mapping[str, str] = field(default_factory=dict, hash=False)
    usual: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def fuses(self) -> bool:
        """Whether its kernels are timed as those of a compiler."""
        return self.kernels == FUSED

    def code(self, model: Model) -> Code:
        """How it runs the operations of a model."""
        packed = model.quantization is not None and model.lora is not None
        return Code(
            steps=self.norms == STEPS,
            shares=self.attention == SHARED,
            autocast=self.autocast,
            packed=(self.autocast or "bf16") if packed else "",
            rest=self.rest if packed else "",
            adapters=self.packed_adapters if packed else self.adapters,
            keeps=self.packed_inputs == KEPT,
            **self._of_fused(model.lora),
        )

    def _of_fused(self, lora: LoRA | None) -> dict[str, Any]:
        """How queries, keys and values run whose matrices are one."""
        if self.projections != FUSED:
            return {}
        targets = () if lora is None else lora.targets
        adapted = [name for name, word in PROJECTIONS.items() if {word, EVERY} & {*targets}]
        return {"fused": True, "padded": len(adapted) < len(PROJECTIONS), "later": tuple(adapted[1:])}

    def said(self, options: Mapping[str, object]) -> Iterator[str]:
        """These options in its own words."""
        return (text for _, text in texts_of(self.arguments, options, ALWAYS))

    def check(self, method: str) -> None:
        """Raise ArchError for a method that it does not have."""
        if method not in self.methods:
            raise ArchError(f"{self.title} has no method {method}", f"--method {either(self.methods)}")

    def check_plan(self, devices: int, zero: int) -> None:
        """Raise ArchError for a plan of devices that it does not share a model by."""
        if zero in self.zero or (devices == 1 and not self.zero):
            return
        if not self.zero:
            what = f"what {self.title} holds is known of one device, and the plan has {devices}"
            raise ArchError(what, f"{SEVERAL} on several")
        stages = either([f"--zero {stage}" for stage in self.zero])
        raise ArchError(f"{self.title} shares a model among devices", f"--dp N with {stages}")

    def check_model(self, model: Model) -> None:
        """Raise ArchError for adapters, or a form of packed weights, that it was not compared with."""
        if model.lora is None:
            return
        if not model.lora.adapts:
            self.check(FROZEN)
            return
        if LORA not in self.methods:
            raise ArchError(f"{self.title} trains no adapters", "--trainer peft")
        if model.lora.dora:
            self.check(DORA)
        packed = model.quantization
        if model.lora.dora and self.norms == STEPS and (packed or model.lora.dropout):
            what = f"what {self.title} holds for DoRA beside packed weights, or with a dropout, is not known"
            raise ArchError(what, "--method dora of weights in 16 bits, or --method qlora")
        if packed is not None and packed.format not in PACKED_BY_BITSANDBYTES:
            what = f"what {self.title} holds beside weights in {model.stored_as or 'a form of their own'}"
            raise ArchError(f"{what} is not known", f"--dtype {either(PACKED_BY_BITSANDBYTES)}")

    def check_type(self, model: Model, dtype: str) -> None:
        """Raise ArchError for weights whose gradients torch's scaler, which fp16 needs, does not take."""
        if self.autocast and dtype == "fp16" and not self.held(model)[1]:
            what = f"{self.title} scales gradients in fp16, and torch scales none of weights in fp16"
            raise ArchError(what, "--dtype fp32, of which autocast makes products in 16 bits")

    def held(self, model: Model) -> tuple[Model, str]:
        """A model whose weights are in the types that it holds them in, and the type of those that train.

        The type is empty for the model's.
        """
        if model.lora is None or not model.lora.adapts:
            return model, self.shards
        code, quantization = self.code(model), model.quantization
        if code.rest and quantization is not None:
            model = model.replace(quantization=quantization.replace(rest=code.rest))
        return model, code.adapters

    def not_compared(self, model: Model, rows: Iterable[Row]) -> Iterator[str]:
        """A note on what was not compared with its own: all of it, some operations, or the series."""
        if not self.compared:
            yield f"What {self.title} holds is read off its source; no run of it was compared."
            return
        others = [folded_path(row.path) for row in rows if not _is_compared(row)]
        series = {name.partition(" ")[0].lower() for name in self.compared}
        if self.norms == STEPS and others:
            named = ", ".join([*dict.fromkeys(others)][:SHOWN])
            yield f"Not compared with {self.title}, and counted as archcli runs it: {named}."
        elif self.norms == STEPS and model.series not in series:
            known = f"Bytes were compared on {', '.join(self.compared)}"
            yield f"{known}: a class with fused projections, as Phi 3 has, takes up to 11% more or less."


NO_TRAINER = Trainer()
"""The model as archcli builds it."""
COMPARED = (
    *(Add, Attend, Activate, Linear, Lookup, Magnitude, Multiply, Normalize, Rotate, RotaryTable, Scale),
)
"""Operations of models whose memory was compared with that of the trainers' own modules."""


def _is_compared(row: Row) -> bool:
    op, norm = row.op, row.op.traits(*row.inputs).norm
    # a norm of all heads at once is OLMo 2's, whose gain is multiplied in fp32
    of_heads = op.name not in {"q_norm", "k_norm"} or len(row.inputs[0]) > len("BTD")
    is_alike = type(op) in COMPARED and not op.lacks_kernel and norm != "layernorm" and of_heads
    return op.is_view or bool(op.zero_cost_reason) or is_alike


def with_method(model: Model, method: str | None) -> Model:
    """The model with what a method trains: adapters of all projections, where it states none of its own.

    Raises ArchError for a model whose adapters the method leaves out, or whose matrices cannot have them.
    """
    if method == FULL and model.lora is not None:
        raise ArchError("the method full trains all weights, and the model has adapters", "leave lora out")
    if method == FROZEN:
        trained = (model.lora and model.lora.trained) or (HEAD,)
        return model.replace(lora=checked(LoRA(targets=(), trained=trained), model))
    if method not in {LORA, QLORA, DORA}:
        return model
    lora = model.lora or USUAL_LORA
    if method == DORA:
        lora = checked(lora.replace(dora=True), model)
    return model.replace(lora=lora)


def checked(lora: LoRA, model: Model) -> LoRA:
    """What is trained of a model. Raises ArchError where it does not suit the model."""
    for conflict in lora.check_model(model):
        raise ArchError(conflict.what, conflict.hint)
    return lora


def _trainer(value: object) -> Trainer | None:
    if value is not None and not isinstance(value, Trainer):
        raise refused(value, "a Trainer")
    return value


ChosenTrainer = Annotated[Trainer | None, Conversion("a Trainer", _trainer)]
"""The annotation of a record's field."""


def texts_of(
    arguments: Mapping[str, str], options: Mapping[str, object], always: Container[str]
) -> Iterator[tuple[str, str]]:
    """(option, its text) in the words of a program: the first of its `arguments` that applies to each.

    `recompute none` is of that value, `ep {tp}` of one equal to tp, `rank` of any value but 0, 1 and None.
    """
    known = set()
    for option, text in arguments.items():
        name, _, value = option.partition(" ")
        said = str(options.get(name))
        applies = said == value.format(**options) if value else name in always or said not in LEFT_OUT
        if applies and name not in known:
            known.add(name)
            yield name, text.format(said)
