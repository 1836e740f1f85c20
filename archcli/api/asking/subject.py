"""Shared by subcommands and the Python API: load MODEL, and give a report its name and notes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from archcli.errors import ArchError, Problem, UnknownFormError, either
from archcli.load.loaded import Loaded, NameNote, text_notes
from archcli.load.source import load, load_given
from archcli.measure.report import Report
from archcli.modules import Model
from archcli.plugins import optional
from archcli.render import show
from archcli.units import Taken

if TYPE_CHECKING:
    from archcli.modules import Tower

INTERRUPTED = 130
"""The exit code of an interrupt, as a shell reports it: 128 + SIGINT."""


class Subject(NamedTuple):
    """A loaded model.

    source: its file or preset. overrides: those of --set. notes: of its import.
    config: the config.json that it was imported from; None for a YAML.
    dtype: the format in its name, such as q4_k_m; empty without one.
    """

    model: Model
    name: str
    source: str
    overrides: list[str]
    notes: tuple[str, ...] = ()
    config: Any = None
    dtype: str = ""

    def named(self, report: Report, options: Any = None) -> Report:
        """The report, extended by the model's name, overrides and notes, and by those on words of options."""
        inputs = {**report.inputs, "set": self.overrides} if self.overrides else report.inputs
        named = {"name": self.name, "source": self.source}
        # notes on images are about nothing where none is asked about
        of_model = self.notes if report.totals.get("media") else self.text_notes
        notes = tuple(dict.fromkeys((*report.notes, *of_model, *taken_notes(options))))
        return replace(report, model=named, inputs=inputs, notes=notes)

    def judged(self, command: str, answer: Callable[[], Report]) -> Report:
        """The answer, or a report without a verdict if the bytes of the weights are not known."""
        try:
            return answer()
        except UnknownFormError as error:
            from archcli.measure.weights.unknown_form import without_verdict  # of forms that are not known

            return self.named(without_verdict(command, error.form))

    @property
    def text_notes(self) -> tuple[str, ...]:
        """The notes without those on images, videos and sounds."""
        return text_notes(self.notes)

    @property
    def name_notes(self) -> tuple[str, ...]:
        """The notes on the model that its name was taken for, without those on its file."""
        return tuple(note for note in self.notes if isinstance(note, NameNote))

    def shared(self, tp: int = 1, *, sp: bool = False, ep: int = 1) -> Subject:
        """The subject with one rank's share of the model; unchanged for a single rank."""
        if tp == 1 and ep == 1 and not sp:
            return self
        from archcli.modules.tensor_parallel.shard import shard  # of plans alone

        return self._replace(model=shard(self.model, tp, sp=sp, ep=ep))

    def without_towers(self) -> Subject:
        """The language model alone, and a note that its towers stay as they are; itself without towers."""
        if not self.model.towers:
            return self
        parts = " and ".join(dict.fromkeys(tower.part.replace("_", " ") for tower in self.model.towers))
        note = f"the language model alone is varied; its {parts} and projector are left out"
        return self._replace(model=self.model.replace(towers=()), notes=(*self.notes, note))

    def tower(self, part: str) -> Tower:
        """The tower of a part. Raises ArchError where the model has none."""
        towers: tuple[Tower, ...] = self.model.towers
        tower = next((tower for tower in towers if tower.part == part), None)
        if tower is None:
            hint = f"it has {either([tower.part for tower in towers])}" if towers else "leave --part out"
            raise ArchError(f"{self.name} has no {part}", hint)
        return tower

    def show(self, report: Report, form: str | None, output: Path | None, *, as_json: bool = False) -> None:
        """Print a report on the model, or write it to a file."""
        show(self.named(report), form, output, as_json=as_json)


def taken_notes(options: Any) -> Iterator[str]:
    """Notes on the words of a question that were taken for others: h100 for h100-sxm, 4bit for q4_k_m."""
    options_by_name = {} if options is None else vars(options)
    yield from (value.note for value in options_by_name.values() if isinstance(value, Taken))
    dtype, device = options_by_name.get("dtype"), options_by_name.get("device")
    if dtype is not None:
        from archcli.modules.stored.formats import form_note  # of a format alone

        yield from filter(None, [form_note(dtype)])
    for name in [device] if isinstance(device, str) else device or ():
        note_of = optional("serving.device_note")
        if note_of is not None and (note := note_of(name)):
            yield note


def subject(model: Any, overrides: Sequence[str] | None) -> Subject:
    """Load the model that MODEL names."""
    return subject_of(load(model, overrides or ()), overrides)


def given(model: Any, overrides: Sequence[str] = ()) -> Subject:
    """Load the model that a Python caller gives; a `Model` without overrides is used unchanged."""
    if not isinstance(model, Model):  # whatever a caller hands over
        return subject_of(load_given(model, overrides), overrides)
    if not overrides:
        return Subject(model, model.name, model.source, [])
    from archcli.load.spec.written import to_mapping

    return subject_of(load_given(to_mapping(model), overrides), overrides)


def subject_of(loaded: Loaded, overrides: Sequence[str] | None = None) -> Subject:
    """The architecture as questions take it."""
    loaded_with = (loaded.notes, loaded.config, loaded.dtype)
    return Subject(loaded.model, loaded.name, loaded.source, list(overrides or ()), *loaded_with)


def subjects(models: Sequence[str], overrides: Sequence[Sequence[str]] = ()) -> list[Subject]:
    """Load several models, with a list of overrides for each; ArchError with the problems of all."""
    loaded: list[Subject] = []
    problems: list[Problem] = []
    for i, model in enumerate(models):
        try:
            loaded.append(subject(model, overrides[i] if overrides else ()))
        except ArchError as error:
            problems += error.problems
    if problems:
        raise ArchError(problems)
    return loaded
