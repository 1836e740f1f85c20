"""The answer of a command that wrote a file: its path, or with --json a document."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from archcli.errors import ArchError, sanitize
from archcli.measure.report import Report
from archcli.render import write
from archcli.render.data import as_json as in_json
from archcli.render.write import STDOUT, descriptor, tell


def check_apart(output: Path | None, *, as_json: bool) -> None:
    """Raise ArchError where the file and --json would both go to standard output."""
    if as_json and output is not None and descriptor(output) == STDOUT:
        raise ArchError("--json and the file would both go to standard output", "-o FILE writes the file")


def say_written(
    command: str,
    models: Sequence[str],
    inputs: Mapping[str, Any],
    output: Path | None,
    *,
    as_json: bool,
    notes: Iterable[str] = (),
    rows: Iterable[Mapping[str, Any]] = (),
) -> None:
    """Name the file on standard error, or print a document: `totals.file`, and rows of what was drawn."""
    file = str(output) if output is not None and descriptor(output) is None else None
    if as_json:
        model, named = {"name": ", ".join(models)}, {key: _named(value) for key, value in inputs.items()}
        report = Report(command, model, named, "", {"file": file}, list(rows), notes=list(notes))
        write(in_json(report), None)
        return
    for note in notes:
        tell(f"note: {sanitize(note)}")
    if file is not None:
        tell(sanitize(file))


def _named(value: Any) -> Any:
    return str(value) if isinstance(value, Path) else value
