"""Trainers: what a program that trains holds otherwise than archcli's modules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated

from archcli.errors import ArchError, either
from archcli.graph import Row
from archcli.modules import Model
from archcli.modules.adapters.lora import EVERY, LoRA
from archcli.modules.models.layers import folded_path
from archcli.modules.spec.values import Conversion, refused
from archcli.ops import Activate, Add, Attend, Linear, Lookup, Multiply, Normalize, RotaryTable, Rotate, Scale
from archcli.wings.serving.launches.memory.written import Code

FULL, LORA, QLORA = "full", "lora", "qlora"
METHODS = (FULL, LORA, QLORA)
"""Methods of training: of all weights, of adapters, and of adapters beside packed weights."""
PACKED_BY_BITSANDBYTES = ("nf4", "nf4-double")
"""Formats of packed weights that a trainer's products were compared with."""
RANK = 16
"""The rank of adapters where none is stated."""
HELD, STEPS = "held", "steps"
"""Values of the facts `outputs` and `norms`."""
SHOWN = 3
"""Operations that a note names."""


@dataclass(frozen=True, slots=True)
class Trainer:
    """A program that trains, by the facts of `archcli trainers NAME`.

    norms: in `steps`, RMSNorm is a few functions of torch. autocast: the type in which products compute.
    attention: `shared by torch`, which then has no kernel for fp32 where heads share keys.
    rest: the type of weights beside packed ones. adapters, packed_adapters: that of adapters beside plain
    and packed weights; empty is the model's. outputs: `held`, logits live until the next step has its own.
    methods: what it can be asked to train. optimizer: its default. reserved: bytes that torch's allocator was
    seen to reserve beyond those of tensors, as a share of these.
    """

    name: str = "none"
    title: str = "archcli's modules"
    version: str = ""
    norms: str = ""
    autocast: str = ""
    attention: str = ""
    rest: str = ""
    adapters: str = ""
    packed_adapters: str = ""
    outputs: str = ""
    optimizer: str = ""
    reserved: float = 0.0
    methods: tuple[str, ...] = METHODS

    def code(self, model: Model) -> Code:
        """How it runs the operations of a model."""
        packed = model.quantization is not None and model.lora is not None
        return Code(
            steps=self.norms == STEPS,
            shares=bool(self.attention),
            autocast=self.autocast,
            packed=(self.autocast or "bf16") if packed else "",
            rest=self.rest if packed else "",
            adapters=self.packed_adapters if packed else self.adapters,
        )

    def check(self, method: str) -> None:
        """Raise ArchError for a method that it does not have."""
        if method not in self.methods:
            raise ArchError(f"{self.title} has no method {method}", f"--method {either(self.methods)}")

    def check_model(self, model: Model) -> None:
        """Raise ArchError for adapters, or a form of packed weights, that it was not compared with."""
        if model.lora is None:
            return
        if LORA not in self.methods:
            raise ArchError(f"{self.title} trains no adapters", "--trainer peft")
        packed = model.quantization
        if packed is not None and packed.format not in PACKED_BY_BITSANDBYTES and self.rest:
            what = f"what {self.title} holds beside weights in {model.stored_as or 'a form of their own'}"
            raise ArchError(f"{what} is not known", f"--dtype {either(PACKED_BY_BITSANDBYTES)}")

    def held(self, model: Model) -> tuple[Model, str]:
        """A model whose weights are in the types that it holds them in, and the type of those that train.

        The type is empty for the model's.
        """
        if model.lora is None:
            return model, ""
        code, quantization = self.code(model), model.quantization
        if code.rest and quantization is not None:
            model = model.replace(quantization=quantization.replace(rest=code.rest))
        return model, code.adapters

    def not_compared(self, rows: Iterable[Row]) -> Iterator[str]:
        """A note on operations that were not compared with its own, if there are any."""
        others = [folded_path(row.path) for row in rows if not _is_compared(row)]
        if self.norms == STEPS and others:
            named = ", ".join([*dict.fromkeys(others)][:SHOWN])
            yield f"Not compared with {self.title}, and counted as archcli runs it: {named}."


NO_TRAINER = Trainer()
"""The model as archcli builds it."""
COMPARED = (Add, Attend, Activate, Linear, Lookup, Multiply, Normalize, Rotate, RotaryTable, Scale)
"""Operations of models whose memory was compared with that of the trainers' own modules."""


def _is_compared(row: Row) -> bool:
    op, norm = row.op, row.op.traits(*row.inputs).norm
    is_alike = type(op) in COMPARED and not op.lacks_kernel and norm != "layernorm"
    return op.is_view or bool(op.zero_cost_reason) or is_alike


def with_method(model: Model, method: str | None) -> Model:
    """The model with what a method trains: adapters of all projections, where it states none of its own.

    Raises ArchError for a model whose adapters the method leaves out.
    """
    if method == FULL and model.lora is not None:
        raise ArchError("the method full trains all weights, and the model has adapters", "leave lora out")
    if method in {LORA, QLORA} and model.lora is None:
        return model.replace(lora=LoRA(rank=RANK, targets=(EVERY,)))
    return model


def _trainer(value: object) -> Trainer | None:
    if value is not None and not isinstance(value, Trainer):
        raise refused(value, "a Trainer")
    return value


ChosenTrainer = Annotated[Trainer | None, Conversion("a Trainer", _trainer)]
"""The annotation of a record's field."""
