"""Tables on a terminal, by rich.

A table that is too wide is drawn with short figures alone, then with its main columns, then as a list of
records. Cells are passed as `Text`, which rich prints as it is: `[markup]` in a name or a path is never
interpreted.
"""

from __future__ import annotations

import io
import os
import shutil
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console, RenderableType
from rich.table import Table as Drawing
from rich.text import Text

from archcli.render.grid import Grid, grid
from archcli.render.plain import closing, heading

if TYPE_CHECKING:
    from archcli.measure.report import Report, Table

FOLDED = 16  # the least width of a column of words; figures are never folded
WIDE = 10_000  # into a pipe nothing is cut
GAP = 2


def terminal(report: Report) -> str:
    """Draw the report at the terminal's width; elsewhere at COLUMNS, or as wide as needed."""
    live = sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if live or os.environ.get("COLUMNS") else WIDE
    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=live, highlight=False, emoji=False)
    blocks = [Text(heading(report), style="bold"), *(_fitted(table, width) for table in report.tables)]
    for block in blocks if heading(report) else blocks[1:]:
        console.print(block)
        console.print()
    for line in closing(report):
        console.print(Text(line, style="dim"))
    return "\n".join(line.rstrip() for line in out.getvalue().split("\n"))


def _fitted(table: Table, width: int) -> RenderableType:
    """The fullest form of a table that fits: all, short figures only, main columns, a list."""
    main = replace(table, columns=[column for column in table.columns if not column.minor])
    forms = [grid(table), grid(table, brief=True), grid(main, brief=True)]
    fitting = next((form for form in forms if _needed(form) <= width), None)
    return _listed(forms[0]) if fitting is None else _drawn(fitting)


def _needed(table: Grid) -> int:
    return sum(_least(table, i) + GAP for i in range(len(table.heads)))


def _least(table: Grid, i: int) -> int:
    return table.widths[i] if table.numeric[i] else min(table.widths[i], FOLDED)


def _drawn(table: Grid) -> Drawing:
    drawn = Drawing(
        box=box.SIMPLE_HEAD,
        title=Text(table.title, style="bold") if table.title else None,
        title_justify="left",
        show_header=any(table.heads),
        show_edge=False,
        padding=(0, 1, 0, 0),
    )
    for i, head in enumerate(table.heads):
        drawn.add_column(
            Text(head),
            justify="right" if table.numeric[i] else "left",
            no_wrap=table.numeric[i],
            min_width=_least(table, i),
            overflow="fold",
        )
    for row in table.rows:
        drawn.add_row(*map(Text, row))
    if table.footer:
        drawn.add_row(*map(Text, table.footer), style="bold")
    return drawn


def _listed(table: Grid) -> Text:
    """Each record as a list: its first cell as a heading, the others below it."""
    text = Text(f"{table.title}\n" if table.title else "", style="")
    text.stylize("bold")
    for row in [*table.rows, *([table.footer] if table.footer else [])]:
        text.append(f"{row[0]}\n", style="bold")
        for line in _pairs(table.heads, row):
            text.append(f"  {line}\n")
    text.right_crop(1)
    return text


def _pairs(heads: tuple[str, ...], row: tuple[str, ...]) -> list[str]:
    """Lines of `heading value short`; the short figure has no heading of its own."""
    lines: list[str] = []
    for head, cell in list(zip(heads, row, strict=True))[1:]:
        if head or not lines:
            lines.append(f"{head} {cell}".strip())
        elif cell:
            lines[-1] += f"  {cell}"
    return lines
