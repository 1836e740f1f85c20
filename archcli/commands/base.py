"""Shared by subcommands: load MODEL, and print a report with its name and notes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from archcli.errors import ArchError, Problem
from archcli.load.source import load
from archcli.measure.report import Report
from archcli.modules import Model
from archcli.render import show


class Subject(NamedTuple):
    """A loaded model: its name, the file or preset it came from, overrides, notes.

    `config` is the config.json it was imported from, None for a YAML.
    """

    model: Model
    name: str
    source: str
    overrides: list[str]
    notes: tuple[str, ...] = ()
    config: Any = None

    def show(self, report: Report, form: str | None, output: Path | None, *, as_json: bool = False) -> None:
        """Print a report on it, or write it to a file."""
        inputs = {**report.inputs, "set": self.overrides} if self.overrides else report.inputs
        named = {"name": self.name, "source": self.source}
        report = replace(report, model=named, inputs=inputs, notes=(*report.notes, *self.notes))
        show(report, form, output, as_json=as_json)


def subject(model: str, overrides: Sequence[str] | None) -> Subject:
    """Load the model that MODEL names."""
    loaded = load(model, overrides or ())
    return Subject(
        loaded.model, loaded.name, loaded.source, list(overrides or ()), loaded.notes, loaded.config
    )


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
