"""export: `archcli export` in Python: an architecture in the words of others."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, Literal

from archcli.api.asking.question import Option, asks
from archcli.api.asking.subject import Subject, given
from archcli.load.foreign.class_names import preset_types
from archcli.load.spec.written import to_yaml
from archcli.modules import Model
from archcli.modules.models.model import ModelLike
from archcli.render.write import check_writable, write, write_new_files
from archcli.wings.shapes.export.families import Wanted, written
from archcli.wings.shapes.export.reading import notes_on
from archcli.wings.shapes.export.trainers import trainer

CONFIG, MUP = "config.json", "mup.json"
FIRST = ("architectures", "model_type")

Target = Annotated[
    Literal["hf", "torch", "yaml", "litgpt", "megatron", "nanogpt", "torchtitan"],
    Option(
        "hf: a config.json that transformers loads. torch: one file of plain PyTorch, to read and to run. "
        "yaml: archcli's own form, without defaults. litgpt: a model_config.yaml. megatron: arguments of "
        "Megatron-LM's pretrain_gpt.py. nanogpt: a file of its config folder. torchtitan: a module for its "
        "--module."
    ),
]
ModelType = Annotated[
    str | None,
    Option(
        "Of --to hf, the class that is meant, by its model_type: qwen3. Without it the first that is exact.",
        metavar="NAME",
    ),
]
Base = Annotated[
    str | None,
    Option(
        "Multipliers of muP for each tensor, beside this narrower model. Without -o they alone are printed; "
        "with it mup.json is written too.",
        metavar="BASE",
    ),
]


@dataclass(frozen=True)
class ExportOptions:
    """Options of `archcli export`."""

    model: ModelLike
    to: Target = "hf"
    _: KW_ONLY
    model_type: ModelType = None
    mup: Base = None


class Exported:
    """An architecture in another form: `text` is what is printed, `save` writes it.

    `mup` is the text of mup.json, empty without a base.
    """

    mup = ""

    def __init__(
        self, name: str, to: str, text: str, facts: Mapping[str, Any], notes: tuple[str, ...]
    ) -> None:
        """Keep the text, facts of it, and notes on what it leaves out."""
        self.name, self.to, self.text, self.facts, self.notes = name, to, text, dict(facts), notes

    def save(self, path: str | PathLike[str]) -> Path:
        """Write a new folder with a config.json, or a file; ArchError where one is there, or cannot be."""
        place, extra = Path(path), {MUP: self.mup} if self.mup else {}
        if self.to == "hf":
            write_new_files(place, {CONFIG: self.text, **extra})
            return place / CONFIG
        check_writable(place)
        write_new_files(place.parent, extra)
        write(self.text, place)
        return place

    def __str__(self) -> str:
        """The text."""
        return self.text

    def __repr__(self) -> str:
        return f"Exported({self.name}, to={self.to!r})"


def export_of(subject: Subject, options: ExportOptions) -> Exported:
    """The other form of a loaded model. Raises ArchError where it cannot express the model exactly."""
    mup = "" if options.mup is None else mup_text(subject, options.mup)
    exported = _in_form(subject, options)
    exported.mup = mup
    return exported


def mup_text(subject: Subject, base: str) -> str:
    """The mup.json of a loaded model beside a narrower one."""
    from archcli.wings.shapes.export.mup import as_text, mup  # of bases alone

    narrow = given(base)
    models = [it.model.replace(towers=(), beside=()) for it in (subject, narrow)]
    return as_text(mup(models[0], models[1], narrow.name))


def _in_form(subject: Subject, options: ExportOptions) -> Exported:
    if options.to == "yaml":
        return Exported(subject.name, "yaml", to_yaml(subject.model), {}, subject.text_notes)
    language = subject.model.replace(towers=(), beside=())
    notes = (*subject.name_notes, *_left_out(subject.model, options.to))
    if options.to == "torch":
        from archcli.wings.shapes.export.plain.file import torch_file  # of programs alone

        text = torch_file(language)
        return Exported(subject.name, "torch", text, {"lines": text.count("\n")}, notes)
    if options.to != "hf":
        text, said = trainer(options.to).written(language, subject.name)
        return Exported(subject.name, options.to, text, {"lines": text.count("\n")}, (*notes, *said))
    known = preset_types().get(subject.name, "") or _inner_type(subject.config)
    config = written(Wanted(language, subject.name, known), options.model_type)
    ordered = dict(sorted(config.data.items(), key=lambda item: (item[0] not in FIRST, item[0])))
    facts = {"model_type": config.data["model_type"], "class": config.data["architectures"][0]}
    return Exported(
        subject.name, "hf", f"{json.dumps(ordered, indent=2)}\n", facts, (*notes, *notes_on(ordered))
    )


def _left_out(model: Model, to: str) -> Iterator[str]:
    """What the other form does not have."""
    parts = dict.fromkeys(tower.part.replace("_", " ") for tower in model.towers)
    if parts:
        yield f"the {' and '.join(parts)} and projector are left out"
    if to == "hf" and (model.quantization or model.published_in):
        yield "how the published weights are stored (quantization_config) is left out"
    if to != "torch" and model.value_of("lora"):
        yield "adapters (lora) are left out"
    if to == "torch" and model.value_of("mtp"):
        yield "multi-token prediction has its parameters, and no forward: it runs in training alone"


def _inner_type(config: Any) -> str:
    """The model_type of an imported file's language model."""
    if not isinstance(config, dict):
        return ""
    inner = config.get("text_config")
    return _inner_type(inner) if isinstance(inner, dict) else str(config.get("model_type", ""))


@asks(ExportOptions)
def export(options: ExportOptions) -> Exported:
    """An architecture in the words of others: a config.json, plain PyTorch, YAML, or a trainer's config.

    The config.json is the one whose import is the model, setting for setting; ArchError where no class
    expresses it, with the nearest and what that lacks. The PyTorch file is the model's own forward, written
    down: `Model()` gives its logits. A trainer's config has a key for every setting; ArchError names one that
    has none. `.text` is the file, `.save(DIR)` writes it.

    Example: `export("llama-3.1-8b").facts["class"]` is LlamaForCausalLM.
    """
    return export_of(given(options.model), options)
