"""Options of what trains a model, and how: `--trainer` and `--method`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, fields, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from archcli.api.asking.question import Option
from archcli.errors import ArchError
from archcli.wings.serving.devices.engines import load_trainer
from archcli.wings.serving.launches.memory.trainer import DORA, LORA, NO_TRAINER, QLORA, Trainer

if TYPE_CHECKING:
    from archcli.measure.report import Report
    from archcli.modules import Model
    from archcli.wings.serving.memory.answers.question import MemoryQuestion

TrainerOption = Annotated[
    str | None, Option("What trains, of `archcli trainers`.", metavar="NAME", completes="trainers")
]
Method = Annotated[
    Literal["full", "lora", "qlora", "dora", "frozen"] | None,
    Option("Train all, adapters of rank 16, these beside 4 bits and paged AdamW, with DoRA, or a part."),
]
Command = Annotated[bool, Option("Add the engine's or trainer's command.")]
USUAL = {"optimizer": "adamw-mixed", "recompute": "none", "loss": "plain"}
"""Options of training where nothing says others."""
OPTIONS = ("batch_size", "grad_accum", "recompute", "optimizer", "dtype")
"""Settings that trainers have words for."""
QUANTIZED = {"dtype": "nf4-double", "optimizer": "paged-adam8bit"}
"""Options that the method qlora sets."""


@dataclass(frozen=True)
class TrainerOptions:
    """What trains a model, and which of its weights."""

    _: KW_ONLY
    trainer: TrainerOption = None
    method: Method = None
    command: Command = False

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
        if not lora.adapts:
            adapters = f"{', '.join(lora.trained)} alone"
        yield f"{self.method}: {adapters}, weights in {stored}, {settings.optimizer}."

    def filled(self, usual: str, model: Model | None = None) -> dict[str, Any]:
        """What is left out, with a `usual` dtype, as the trainer or the method has it."""
        options = {"dtype": usual, **self.usual(model)}
        return {name: options[name] for name in options if vars(self).get(name, "") is None}

    def with_arguments(self, report: Report, question: MemoryQuestion) -> Report:
        """The report with what was asked, and what fits, in the words of the trainer.

        With --command in a note as well.
        """
        model, settings, fitted = question.model, question.settings, report.totals.get("fit") or {}
        if settings.trainer is None:
            return report
        options = {name: getattr(settings, name) for name in OPTIONS} | question.plan.inputs()
        options |= {"seq_len": settings.tokens(model), "stored": model.stored_as}
        options |= {} if model.lora is None else {"rank": model.lora.rank}
        options |= {name: value for name, value in fitted.items() if name in options and value is not None}
        options["batch_size"] = max(options["batch_size"] // settings.trainer.sequences, 1)
        said = [*settings.trainer.said(options)]
        line = (" " if said and said[0].startswith("--") else ", ").join(said)
        note = (f"In the words of {settings.trainer.title}: {line}",) if self.command else ()
        totals = {**report.totals, "arguments": said}
        return replace(report, totals=totals, notes=(*note, *report.notes))

    def usual(self, model: Model | None = None) -> dict[str, str]:
        """Options where they are left out, by the trainer and, above it, by the method."""
        trainer = trainer_named(self.trainer) or NO_TRAINER
        adapts = self.method in {LORA, QLORA, DORA} or (model is not None and model.lora is not None)
        of_weights = {} if adapts or not trainer.weights else {"dtype": trainer.weights}
        quantized = QUANTIZED if self.method == QLORA else {}
        return USUAL | dict(trainer.usual) | of_weights | quantized


def trainer_named(name: str | None) -> Trainer | None:
    """The trainer of a name; None for archcli's modules. Raises ArchError for an unknown name."""
    if name is None or name == NO_TRAINER.name:
        return None
    facts, known = load_trainer(name), {field.name for field in fields(Trainer)}
    chosen: dict[str, Any] = {key: fact for key, fact in facts.items() if key in known}
    lists = {key: tuple(fact) for key, fact in chosen.items() if isinstance(fact, list)}
    return Trainer(**{**chosen, **lists})


def of_known_plan(question: MemoryQuestion) -> MemoryQuestion:
    """The question. Raises ArchError where a trainer would train what it was not compared on."""
    trainer = question.settings.trainer
    if trainer is None:
        return question
    trainer.check_plan(question.plan.devices, question.plan.zero)
    if question.model.towers:
        what = f"what {trainer.title} holds is known of language models alone"
        raise ArchError(what, "leave --trainer out for archcli's modules")
    trainer.check_model(question.model)
    trainer.check_type(question.model, question.settings.dtype)
    return question
