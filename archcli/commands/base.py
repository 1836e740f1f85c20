"""What subcommands share: MODEL to an architecture, and a report to the printer under the model's name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from archcli.errors import ArchError, Problem
from archcli.load.source import load
from archcli.measure.report import Report
from archcli.modules import Model
from archcli.render import Format, show


class Subject(NamedTuple):
    """The architecture that is asked about, its name, the file or preset it came from, and the config.json it was imported from, if any."""

    model: Model
    name: str
    source: str
    overrides: list[str]
    notes: tuple[str, ...] = ()
    config: Any = None

    def show(self, report: Report, form: Format | None, output: Path | None, *, as_json: bool) -> None:
        """Print a report about it."""
        inputs = {**report.inputs, "set": self.overrides} if self.overrides else report.inputs
        named = {"name": self.name, "source": self.source}
        show(
            replace(report, model=named, inputs=inputs, notes=(*report.notes, *self.notes)),
            form,
            output,
            as_json=as_json,
        )


def subject(model: str, overrides: Sequence[str] | None) -> Subject:
    """Load what MODEL names."""
    loaded = load(model, overrides or ())
    return Subject(
        loaded.model, loaded.name, loaded.source, list(overrides or ()), loaded.notes, loaded.config
    )


def subjects(models: Sequence[str], overrides: Sequence[Sequence[str]] = ()) -> list[Subject]:
    """Load several, each with its own overrides where there are any; ArchError with the problems of all."""
    found: list[Subject] = []
    problems: list[Problem] = []
    for i, model in enumerate(models):
        try:
            found.append(subject(model, overrides[i] if overrides else ()))
        except ArchError as error:
            problems += error.problems
    if problems:
        raise ArchError(problems)
    return found
