"""Tables on a terminal, by rich. Where a table is wider than the terminal, its records are listed one under the other instead.

Cells are handed over as `Text`, which rich prints as it is: no `[markup]` of a name or a path is ever interpreted.
"""

from __future__ import annotations

import io
import os
import shutil
import sys
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from archcli.render.grid import Grid, grid
from archcli.render.plain import closing

if TYPE_CHECKING:
    from archcli.measure.report import Report

FOLDED = 16  # a column of words may be folded down to so many characters; figures are never broken
WIDE = 10_000  # into a pipe nothing is cut
GAP = 2


def terminal(report: Report) -> str:
    """The report as wide as the terminal; without one as wide as COLUMNS says, else as wide as it needs."""
    live = sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if live or os.environ.get("COLUMNS") else WIDE
    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=live, highlight=False, emoji=False)
    for table in map(grid, report.tables):
        console.print(_fitted(table, width))
        console.print()
    for line in closing(report):
        console.print(Text(line, style="dim"))
    return "\n".join(line.rstrip() for line in out.getvalue().split("\n"))


def _fitted(table: Grid, width: int) -> RenderableType:
    needed = sum(_least(table, i) for i in range(len(table.heads))) + GAP * (len(table.heads) - 1) + 2
    return _drawn(table) if needed <= width else _listed(table)


def _least(table: Grid, i: int) -> int:
    return table.widths[i] if table.numeric[i] else min(table.widths[i], FOLDED)


def _drawn(table: Grid) -> Table:
    drawn = Table(
        box=box.SIMPLE_HEAD,
        title=Text(table.title, style="bold") if table.title else None,
        title_justify="left",
        show_header=any(table.heads),
        show_footer=table.footer is not None,
        footer_style="bold",
        padding=(0, 1),
        pad_edge=False,
    )
    for i, head in enumerate(table.heads):
        drawn.add_column(
            Text(head),
            Text(table.footer[i] if table.footer else ""),
            justify="right" if table.numeric[i] else "left",
            no_wrap=table.numeric[i],
            overflow="fold",
        )
    for row in table.rows:
        drawn.add_row(*map(Text, row))
    return drawn


def _listed(table: Grid) -> Text:
    """The first cell as a heading, the others below it, a line each."""
    text = Text(f"{table.title}\n" if table.title else "", style="")
    text.stylize("bold")
    for row in [*table.rows, *([table.footer] if table.footer else [])]:
        text.append(f"{row[0]}\n", style="bold")
        for line in _pairs(table.heads, row):
            text.append(f"  {line}\n")
    text.right_crop(1)
    return text


def _pairs(heads: tuple[str, ...], row: tuple[str, ...]) -> list[str]:
    """`heading value short`: the short figure stands behind the exact one, as it has no heading of its own."""
    lines: list[str] = []
    for head, cell in list(zip(heads, row, strict=True))[1:]:
        if head or not lines:
            lines.append(f"{head} {cell}".strip())
        elif cell:
            lines[-1] += f"  {cell}"
    return lines
