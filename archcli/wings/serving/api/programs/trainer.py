"""Options of what trains a model, and how: `--trainer` and `--method`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, Literal

from archcli.api.asking.question import Option
from archcli.errors import ArchError
from archcli.wings.serving.devices.engines import load_trainer
from archcli.wings.serving.launches.memory.trainer import NO_TRAINER, QLORA, Trainer

if TYPE_CHECKING:
    from archcli.wings.serving.memory.answers.question import MemoryQuestion

TrainerOption = Annotated[
    str | None, Option("What trains, of `archcli trainers`.", metavar="NAME", completes="trainers")
]
Method = Annotated[
    Literal["full", "lora", "qlora"] | None,
    Option("What is trained: all weights, adapters of rank 16, or these beside 4 bits and paged AdamW."),
]
USUAL_OPTIMIZER, PACKED, PAGED = "adamw-mixed", "nf4-double", "paged-adam8bit"
"""The optimizer where nothing says another; the format and the optimizer of qlora."""


@dataclass(frozen=True)
class TrainerOptions:
    """What trains a model, and which of its weights."""

    _: KW_ONLY
    trainer: TrainerOption = None
    method: Method = None

    def chosen_trainer(self, phase: str) -> Trainer | None:
        """The trainer; None for none. Raises ArchError for an unknown one, and outside of training."""
        for name, value in (("--trainer", self.trainer), ("--method", self.method)):
            if value is not None and phase != "train":
                raise ArchError(f"{name} {value} is of training, and the phase is {phase}", "--phase train")
        trainer = trainer_named(self.trainer)
        if self.method is not None:
            (trainer or NO_TRAINER).check(self.method)
        return trainer

    def method_notes(self, question: MemoryQuestion) -> Iterator[str]:
        """What the method makes of the model, where adapters are trained."""
        lora, settings = question.model.lora, question.settings
        if self.method is None or lora is None:
            return
        stored = question.model.stored_as or settings.dtype
        adapters = f"adapters of rank {lora.rank} on {', '.join(lora.targets)}"
        yield f"{self.method}: {adapters}, weights in {stored}, {settings.optimizer}."

    def usual_format(self) -> str | None:
        """The format of the weights by the method; None for that of a training step."""
        return PACKED if self.method == QLORA else None

    def usual_optimizer(self) -> str:
        """The optimizer where none is named: the method's, else the trainer's."""
        if self.method == QLORA:
            return PAGED
        trainer = trainer_named(self.trainer)
        return (trainer and trainer.optimizer) or USUAL_OPTIMIZER


def trainer_named(name: str | None) -> Trainer | None:
    """The trainer of a name; None for archcli's modules. Raises ArchError for an unknown name."""
    if name is None or name == NO_TRAINER.name:
        return None
    facts, known = load_trainer(name), {field.name for field in fields(Trainer)}
    chosen: dict[str, Any] = {key: fact for key, fact in facts.items() if key in known}
    return Trainer(**{**chosen, "methods": tuple(facts["methods"])})


def of_one_device(question: MemoryQuestion) -> MemoryQuestion:
    """The question. Raises ArchError where a trainer would train what it was not compared on."""
    trainer = question.settings.trainer
    if trainer is None:
        return question
    if question.plan.devices > 1:
        what = f"what {trainer.title} holds is known of one device, and the plan has {question.plan.devices}"
        raise ArchError(what, "leave --trainer out for archcli's modules on several")
    if question.model.towers:
        what = f"what {trainer.title} holds is known of language models alone"
        raise ArchError(what, "leave --trainer out for archcli's modules")
    trainer.check_model(question.model)
    return question
