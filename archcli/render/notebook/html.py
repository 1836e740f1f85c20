"""HTML of a report for notebooks: plain tables, which take the notebook's own colours, light or dark."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from archcli.render.grid import Grid, grid
from archcli.render.plain import closing, heading

if TYPE_CHECKING:
    from archcli.measure.report import Report

SCROLL = "overflow-x:auto"
NUMERIC = "text-align:right;white-space:nowrap"
WORDS = "text-align:left"


def html(report: Report) -> str:
    """The heading, every table below its title, then the convention and the notes. Everything is escaped."""
    lines = [f"<p><strong>{escape(heading(report))}</strong></p>"] if heading(report) else []
    lines += [_drawn(grid(table)) for table in report.tables]
    lines += [f"<p><small>{escape(line)}</small></p>" for line in closing(report)]
    return "\n".join(["<div>", *lines, "</div>"]) + "\n"


def _drawn(table: Grid) -> str:
    lines = [f"<caption>{escape(table.title)}</caption>"] if table.title else []
    lines += [f"<thead>{_row('th', table.heads, table.numeric)}</thead>"] if any(table.heads) else []
    lines += ["<tbody>", *(_row("td", row, table.numeric) for row in table.rows), "</tbody>"]
    lines += [f"<tfoot>{_row('th', table.footer, table.numeric)}</tfoot>"] if table.footer else []
    return "\n".join([f'<div style="{SCROLL}"><table>', *lines, "</table></div>"])


def _row(tag: str, cells: tuple[str, ...], numeric: tuple[bool, ...]) -> str:
    drawn = "".join(_cell(tag, cell, right) for cell, right in zip(cells, numeric, strict=True))
    return f"<tr>{drawn}</tr>"


def _cell(tag: str, text: str, flush_right: bool) -> str:
    return f'<{tag} style="{NUMERIC if flush_right else WORDS}">{escape(text)}</{tag}>'
