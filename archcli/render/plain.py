"""Text without colour: aligned columns for pipes and files, and Markdown tables."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from archcli.errors import sanitize
from archcli.render.grid import Grid, grid
from archcli.render.screen import cell_width, columns, folded
from archcli.render.values import exact, short

if TYPE_CHECKING:
    from archcli.measure.report import Report, Table, Unit

EXACT = "exact figures"
INPUTS: dict[str, tuple[str, Unit]] = {
    "memory_bytes": ("memory", "bytes"),
    "mla": ("MLA", "text"),
    "scan": ("scan", "text"),
}
"""Inputs that a heading does not call by their key, or that have a unit."""


def plain(report: Report) -> str:
    """The answer and its settings, every table, then the convention and the notes."""
    blocks = [
        "\n".join(opening(report)),
        *(_drawn(grid(table, wrapped=True)) for table in report.tables),
        "\n".join(closing(report)),
    ]
    return "\n\n".join(filter(None, blocks)) + "\n"


def piped(report: Report) -> str:
    """Plain text, of which a table that is wider than the terminal of standard error leaves columns out.

    So `archcli list | head` has a line for each model; a line below the tables says what is missing.
    """
    width = columns(sys.stderr)
    if width is None:
        return plain(report)
    tables = [fitting(table, width) for table in report.tables]
    reduced = reduced_line([missing for _, missing in tables], width)
    body = ["\n".join(opening(report)), *(_drawn(table) for table, _ in tables)]
    below = [part for line in (*reduced, *closing(report)) for part in folded(line, width, pasted=True)]
    return "\n\n".join(filter(None, [*body, "\n".join(below)])) + "\n"


def fitting(table: Table, width: int) -> tuple[Grid, tuple[str, ...]]:
    """The fullest of three forms that fits the width, and what it leaves out."""
    whole, brief = grid(table, wrapped=True), grid(table, brief=True)
    if any(column.wraps for column in table.columns):
        return whole, ()
    minor = tuple(column.title for column in table.columns if column.minor)
    main = replace(table, columns=[column for column in table.columns if not column.minor])
    rounded = (EXACT,) if len(brief.heads) < len(whole.heads) else ()
    forms = ((whole, ()), (brief, rounded), (grid(main, brief=True), (*rounded, *minor)))
    return next((form for form in forms if _width(form[0]) <= width), forms[-1])


def reduced_line(missing: Sequence[Sequence[str]], width: int) -> list[str]:
    """The line on what was left out for want of room."""
    left_out = list(dict.fromkeys(what for of_table in missing for what in of_table))
    if not left_out:
        return []
    return [f"Fitted to {width} columns, without {', '.join(left_out)}. --format plain shows all."]


def _width(table: Grid) -> int:
    return sum(table.widths) + 2 * (len(table.widths) - 1)


def opening(report: Report) -> list[str]:
    """The first lines: the answer, `gpt2: 75.5 MB of cache …`, and below it what was asked for.

    A report without a headline has one line: `gpt2: kvcache, context 1,024`.
    """
    name, settings = report.model.get("name", ""), _settings(report)
    # a name alone is no setting
    settings_line = [settings] if settings != report.command else []
    lines = [*report.headline.split("\n"), *settings_line] if report.headline else [settings]
    # an answer about several models begins with the name of one
    if report.headline.startswith(tuple(name.split(", "))) and ", " in name:
        return [sanitize(line) for line in lines if line]
    named = [f"{name}: {lines[0]}", *lines[1:]] if name else report.headline.split("\n")
    return [sanitize(line) for line in named if line]


def heading(report: Report) -> str:
    """The first lines as one."""
    return ". ".join(opening(report))


def _settings(report: Report) -> str:
    """The command and the inputs, but those of their usual values; a title in their place."""
    if report.title:
        overrides = [_input("set", report.inputs["set"])] if report.inputs.get("set") else []
        return ", ".join([report.title, *overrides])
    # no set, as lists, such as that of --set, have no hash
    usual = list(report.usual.items())
    inputs = [
        _input(key, value)
        for key, value in report.inputs.items()
        if value is not None and value is not False and (key, value) not in usual
    ]
    return ", ".join([report.command, *inputs])


def _input(key: str, value: Any) -> str:
    """An input in words: `past 32,000`, `memory 80.0 GiB`; a switch that is on by its name alone."""
    name, unit = INPUTS.get(key, (key.replace("_", " "), "number"))
    if value is True:
        return name
    text = " ".join(map(str, value)) if isinstance(value, list | tuple) else exact(value, unit)
    return f"{name} {short(value, unit) or text}"


def closing(report: Report) -> list[str]:
    """The lines below the tables: the counting convention, the notes, and what is not modelled."""
    notes = [f"note: {sanitize(note)}" for note in report.notes]
    missing = [f"not modelled: {sanitize(text)}" for text in report.not_modelled]
    return [line for line in (sanitize(report.convention), *notes, *missing) if line]


def _drawn(table: Grid) -> str:
    lines = [table.heads] if any(table.heads) else []
    lines += [*table.rows, *([table.footer] if table.footer else [])]
    body = [
        "  ".join(_aligned(*cell) for cell in zip(line, table.widths, table.numeric, strict=True)).rstrip()
        for line in lines
    ]
    return "\n".join([table.title, *body] if table.title else body)


def _aligned(cell: str, width: int, numeric: bool) -> str:
    blanks = " " * (width - cell_width(cell))
    return blanks + cell if numeric else cell + blanks


def markdown(report: Report) -> str:
    """The answer, its settings, every table below its title, then the convention and the notes."""
    blocks = [*map(_escaped, opening(report)), *(_table(grid(table)) for table in report.tables)]
    return "\n\n".join(filter(None, [*blocks, *map(_escaped, closing(report))])) + "\n"


def _table(table: Grid) -> str:
    rule = "|".join(" ---: " if numeric else " --- " for numeric in table.numeric)
    lines = [_line(table.heads), f"|{rule}|", *map(_line, table.rows)]
    if table.footer:
        lines.append(
            _line(tuple(f"**{cell}**" if cell else "" for cell in map(_escaped, table.footer)), escaped=True)
        )
    return "\n".join([f"### {_escaped(table.title)}", "", *lines] if table.title else lines)


def _line(cells: tuple[str, ...], *, escaped: bool = False) -> str:
    return "| " + " | ".join(cells if escaped else map(_escaped, cells)) + " |"


def _escaped(text: str) -> str:
    """Text escaped for Markdown and the HTML in it."""
    # the backslash first, as it escapes the others
    for mark in "\\`*_[]<>|#":
        text = text.replace(mark, f"\\{mark}")
    return text
