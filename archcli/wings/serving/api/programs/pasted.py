"""The command of a question with a change, to paste: `archcli fit gpt2 l4 --kv-dtype fp8`."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from typing import Any

from archcli.api.asking.question import option_of
from archcli.api.asking.subject import Subject
from archcli.measure.report import Report
from archcli.modules.spec.values import hints


def pasted(command: str, subject: Subject, options: Any, change: str = "") -> str:
    """The command line of a question; options of the `change` take the place of those that it has."""
    changed = {word for word in change.split() if word.startswith("--")}
    model = options.model if isinstance(options.model, str | Path) else subject.name
    overrides = [word for text in subject.overrides for word in ("--set", text)]
    kept = [word for name, parts in _parts_of(options) if name not in changed for word in parts]
    return shlex.join(["archcli", command, str(model), *kept, *change.split(), *overrides])


def _parts_of(options: Any) -> Iterator[tuple[str, list[str]]]:
    """(name of an option, its words) of each field that has another value than its default."""
    record: Any = type(options)
    for field, usual, name in _named(record):
        value = getattr(options, field)
        if value is None or value == usual:
            continue
        values = value if isinstance(value, tuple | list) else (value,)
        pairs = [[name] if entry is True else [name, _text(entry)] for entry in values]
        yield name, [word for pair in pairs for word in pair]


@cache
def _named(record: Any) -> tuple[tuple[str, Any, str], ...]:
    """(field, its default, name on the command line) of each option of a record."""
    annotations = hints(record)
    options = ((field, option_of(annotations.get(field.name))) for field in fields(record))
    return tuple(
        (field.name, field.default, f"--{(option.name or field.name).replace('_', '-')}")
        for field, option in options
        if option is not None
    )


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def with_commands(report: Report, command: str, subject: Subject, options: Any) -> Report:
    """The report whose hints on what would fit end in a command to paste."""
    totals, notes = dict(report.totals), list(report.notes)
    asked_once = replace(options, fit=None) if hasattr(options, "fit") else options
    change = totals.get("change")
    if change is not None:
        option = change.get("change") or f"{change['option']} {change['value']}"
        line = pasted(command, subject, asked_once, option)
        totals["change"] = {**change, "command": line}
        hint = f"With {option} it would fit" if "change" in change else change["text"]
        notes = [_ended(note, option, line) if note.startswith(hint) else note for note in notes]
    if totals.get("fitting_plan"):
        line = pasted(command, subject, asked_once, "--fit time")
        notes.append(f"It fits with {totals['fitting_plan']}; the fastest plan: `{line}`.")
    return replace(report, totals=totals, notes=tuple(notes))


def _ended(note: str, option: str, line: str) -> str:
    """The note with the command at its end, in place of the option alone."""
    return f"{note.removesuffix('.').removesuffix(f': {option}')}: `{line}`."
