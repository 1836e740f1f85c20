"""Rendering: any Report as table, json, csv, md, plain text or svg, to standard output or into a file.

The only importer of rich, and the only writer of files. A format is imported when it is used.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from stat import S_ISFIFO
from typing import TYPE_CHECKING, Literal, TextIO

from archcli.errors import ArchError, disarm, quote
from archcli.render.screen import columns
from archcli.render.write import STDOUT, descriptor, write

if TYPE_CHECKING:
    from archcli.measure.report import Report

Format = Literal["table", "json", "csv", "md", "plain", "svg"]

RENDERERS: dict[str, tuple[str, str]] = {
    "table": ("archcli.render.terminal", "terminal"),
    "json": ("archcli.render.data", "as_json"),
    "csv": ("archcli.render.data", "as_csv"),
    "md": ("archcli.render.plain", "markdown"),
    "html": ("archcli.render.notebook", "html"),
    "latex": ("archcli.render.notebook", "latex"),
    "plain": ("archcli.render.plain", "plain"),
    "piped": ("archcli.render.plain", "piped"),
    "svg": ("archcli.render.terminal", "picture"),
    "concise": ("archcli.render.findings", "concise"),
    "github": ("archcli.render.annotations", "github"),
    "sarif": ("archcli.render.annotations", "sarif"),
}
"""(module, function) of each format; the function takes a Report and returns text."""

ANY_REPORT = ("plain", "table", "md", "html", "json", "csv", "svg")
"""The formats of every report; the others are for findings and formulas."""

DATA = {"json", "csv", "github", "sarif"}
"""Formats with a way of their own to hold what a CI runner would obey."""
BY_SUFFIX: dict[str, Sequence[str]] = {
    ".json": ("json",),
    ".csv": ("csv",),
    ".md": ("md",),
    ".svg": ("svg",),
}
"""The formats of a file by its suffix, the usual one first."""
ANYTHING = {"", ".txt"}
"""Suffixes that promise no format."""


def show(
    report: Report, form: str | None = None, output: Path | None = None, *, as_json: bool = False
) -> None:
    """Print the report, or write it to a file.

    Without a format: a table on a terminal, plain text into a pipe, and what the suffix says into a file.
    Into a pipe from a terminal, as `| head`, the text is as wide as that.
    """
    write(rendered(report, chosen_format(form, output, as_json=as_json) or _default_format(output)), output)


def chosen_format(
    form: str | None,
    output: Path | None,
    *,
    as_json: bool = False,
    suffixes: Mapping[str, Sequence[str]] = BY_SUFFIX,
) -> str | None:
    """The format that --format, --json and the file's suffix agree on; None where none of them says.

    Raises ArchError where they contradict each other, and for a suffix that says nothing.
    """
    if as_json and form not in {None, "json"}:
        raise ArchError(f"--json and --format {form} contradict each other", "leave one of them out")
    form = "json" if as_json else form
    suffix = output.suffix.lower() if output is not None and descriptor(output) is None else ""
    if suffix in ANYTHING:
        return form
    formats = suffixes.get(suffix, ())
    if form is None and not formats:
        known = ", ".join(suffixes)
        raise ArchError(f"{output}: {suffix} names no format", f"known are {known}, .txt; or give --format")
    if form is not None and formats and form not in formats:
        option = "--json" if as_json else f"--format {form}"
        raise ArchError(
            f"{option} and -o {output} contradict each other", "rename the file, or leave one out"
        )
    return form or formats[0]


def rendered(report: Report, form: str) -> str:
    """The report in a format."""
    module, function = RENDERERS[form]
    text: str = getattr(import_module(module), function)(report)
    return text if form in DATA else disarm(text)


def on_stderr(report: Report, fuller: str) -> str:
    """The report for standard error: drawn at a terminal's width, plain text elsewhere and without rich.

    `fuller` says where the columns are that the terminal has no room for.
    """
    width = columns(sys.stderr) if _is_unicode(sys.stderr) and find_spec("rich") is not None else None
    if width is None:
        return rendered(report, "plain")
    from archcli.render.terminal import drawn

    return drawn(report, width, live=True, fuller=fuller)


def formatted(report: Report, form: str) -> str:
    """The report in a format that a caller names; ArchError with those of every report for any other."""
    if form not in ANY_REPORT:
        raise ArchError(f"a report has no format {quote(form)}", f"it has {', '.join(ANY_REPORT)}")
    return rendered(report, form)


def _default_format(output: Path | None) -> str:
    if descriptor(output) != STDOUT:
        return "plain"
    if sys.stdout.isatty():
        return "table" if _is_unicode(sys.stdout) else "plain"
    return "piped" if columns(sys.stderr) is not None and _is_pipe(sys.stdout) else "plain"


def _is_pipe(stream: TextIO) -> bool:
    try:
        return S_ISFIFO(os.fstat(stream.fileno()).st_mode)
    except (OSError, ValueError):  # a stream of Python's own
        return False


def _is_unicode(stream: TextIO) -> bool:
    """Whether a stream takes the lines that tables are drawn with."""
    return (stream.encoding or "").lower().replace("-", "") == "utf8"


__all__ = ["Format", "chosen_format", "formatted", "on_stderr", "rendered", "show", "write"]
