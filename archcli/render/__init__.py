"""Rendering: any Report as table, json, csv, md or plain text, to standard output or into a file.

The only importer of rich, and the only writer of files. A format is imported when it is used.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from archcli.render.write import write

if TYPE_CHECKING:
    from archcli.measure.report import Report

Format = Literal["table", "json", "csv", "md", "plain"]

RENDERERS: dict[str, tuple[str, str]] = {
    "table": ("archcli.render.terminal", "terminal"),
    "json": ("archcli.render.data", "as_json"),
    "csv": ("archcli.render.data", "as_csv"),
    "md": ("archcli.render.markdown", "markdown"),
    "plain": ("archcli.render.plain", "plain"),
    "concise": ("archcli.render.findings.lines", "concise"),
    "github": ("archcli.render.findings.annotations", "github"),
    "sarif": ("archcli.render.findings.annotations", "sarif"),
}
"""(module, function) of each format; the function takes a Report and returns text."""

BY_SUFFIX: dict[str, Format] = {".json": "json", ".csv": "csv", ".md": "md"}


def show(
    report: Report, form: Format | None = None, output: Path | None = None, *, as_json: bool = False
) -> None:
    """Print the report, or write it to a file.

    Without a format: a table on a terminal, plain text into a pipe, and what the suffix says into a file.
    """
    write(rendered(report, "json" if as_json else form or _usual(output)), output)


def rendered(report: Report, form: str) -> str:
    """The report in a format."""
    module, function = RENDERERS[form]
    text: str = getattr(import_module(module), function)(report)
    return text


def _usual(output: Path | None) -> Format:
    if output is not None:
        return BY_SUFFIX.get(output.suffix.lower(), "plain")
    unicode = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    return "table" if sys.stdout.isatty() and unicode else "plain"


__all__ = ["Format", "rendered", "show", "write"]
