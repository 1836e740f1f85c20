"""Markdown: a GitHub table for each table of the report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from archcli.render.grid import Grid, grid
from archcli.render.plain import closing, heading

if TYPE_CHECKING:
    from archcli.measure.report import Report


def markdown(report: Report) -> str:
    """The heading, every table below its title, then the convention and the notes as paragraphs."""
    blocks = [_escaped(heading(report)), *(_drawn(grid(table)) for table in report.tables)]
    return "\n\n".join(filter(None, [*blocks, *map(_escaped, closing(report))])) + "\n"


def _drawn(table: Grid) -> str:
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
    for mark in "\\`*_[]<>|#":
        text = text.replace(mark, f"\\{mark}")
    return text
