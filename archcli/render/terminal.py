"""Tables on a terminal, by rich.

A table that is too wide is drawn with short figures, then with its main columns, then as a list of records;
a line below says so. Text is folded between words, then after signs such as the dots of a path. Cells are
passed as `Text`, which rich prints as it is: `[markup]` in a name or a path is never interpreted.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table as Drawing
from rich.text import Text

from archcli.errors import sanitize
from archcli.render.grid import Grid, grid
from archcli.render.plain import closing, opening
from archcli.render.screen import SEAMS, STYLES, cell_width, folded

if TYPE_CHECKING:
    from archcli.measure.report import Report, Table

FOLDED = 16
"""The least width of a folded column of text; figures are never folded."""
WIDE = 10_000  # into a pipe nothing is cut
PICTURED = 100
"""Columns of a terminal's picture where COLUMNS does not say."""
WINDOW = """<svg class="archcli-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: {fonts}; font-size: {char_height}px; line-height: {line_height}px }}
.{unique_id}-title {{ font-family: {fonts}; font-size: 18px; font-weight: bold }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/>
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">{matrix}</g>
</g>
</svg>
""".replace("{fonts}", "ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace")
"""The picture of a terminal, in fonts of the reader's system: rich's own template fetches one."""
# columns between two cells, rich's padding of one on each side
GAP = 2
WORDS = re.compile(r"\s+")
PARTS = re.compile(rf"\s+|(?<=[{re.escape(SEAMS)}])")
"""Where text may be folded: between words, or also within them after a sign."""


TableForm = tuple[Grid, re.Pattern[str], tuple[str, ...]]
"""The cells of a table, where text is folded, and the titles of the columns left out."""


class FittedTable(NamedTuple):
    """A table as it is drawn, whether figures are rounded for it, and the columns left out."""

    drawing: RenderableType
    is_rounded: bool = False
    left_out: tuple[str, ...] = ()


def terminal(report: Report) -> str:
    """Draw the report at the terminal's width; elsewhere at COLUMNS, or as wide as needed."""
    live = sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if live or os.environ.get("COLUMNS") else WIDE
    return drawn(report, width, live=live)


def drawn(report: Report, width: int, *, live: bool, fuller: str = "--format plain shows all") -> str:
    """The report at a width, coloured where it is `live`; `fuller` says where more columns are."""
    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=live, highlight=False, emoji=False)
    _print(report, console, fuller)
    # rich fills lines up with blanks
    return "\n".join(line.rstrip() for line in out.getvalue().split("\n"))


def picture(report: Report) -> str:
    """Draw the report as SVG: a terminal as wide as this one, elsewhere of COLUMNS, that shows it."""
    return _pictured(report, lambda console: _print(report, console, "--format plain shows all"))


def picture_of_lines(report: Report, lines: Callable[[int], str]) -> str:
    """Draw findings as SVG, as the terminal shows them: `lines` are those at a width."""

    def draw(console: Console) -> None:
        for line in lines(console.width).split("\n"):
            shown = Text(line)
            for pattern, style in STYLES:
                shown.highlight_regex(pattern, style)
            console.print(shown)

    return _pictured(report, draw)


def _pictured(report: Report, draw: Callable[[Console], None]) -> str:
    live = sys.stdout.isatty() or os.environ.get("COLUMNS")
    width = shutil.get_terminal_size().columns if live else PICTURED
    console = Console(file=io.StringIO(), width=width, record=True, highlight=False, emoji=False)
    draw(console)
    title = " ".join(filter(None, ["archcli", report.command, sanitize(report.model.get("name", ""))]))
    return console.export_svg(title=title, code_format=WINDOW, unique_id="archcli")


def _print(report: Report, console: Console, fuller: str) -> None:
    width = console.width
    tables = [_fitted(table, width) for table in report.tables]
    first = Text("\n").join(_first_lines(report, width))
    for block in [*([first] if first else []), *(table.drawing for table in tables)]:
        console.print(block)
        console.print()
    for line in [*_reduced(tables, width, fuller), *closing(report)]:
        console.print(Text("\n".join(folded(line, width, pasted=True)), style="dim"))


def _first_lines(report: Report, width: int) -> Iterator[Text]:
    """The answer in bold, and its settings; a line of settings alone is bold too."""
    for place, line in enumerate(opening(report)):
        yield Text("\n".join(folded(line, width)), style="" if place else "bold")


def _reduced(tables: Sequence[FittedTable], width: int, fuller: str) -> Iterator[str]:
    """A line on what was left out for want of room."""
    left_out = dict.fromkeys(title for table in tables for title in table.left_out)
    what = ["figures are rounded"] if any(table.is_rounded for table in tables) else []
    what += [f"columns left out: {', '.join(left_out)}"] if left_out else []
    if what:
        yield f"Fitted to {width} columns: {'; '.join(what)}. {fuller}."


def _fitted(table: Table, width: int) -> FittedTable:
    """The fullest form of a table that fits: all, short figures only, main columns, a list."""
    main = replace(table, columns=[column for column in table.columns if not column.minor])
    left_out = tuple(column.title for column in table.columns if column.minor)
    full, brief = grid(table), grid(table, brief=True)
    forms: list[TableForm] = [(full, WORDS, ()), (brief, WORDS, ()), (brief, PARTS, ())]
    forms += [(grid(main, brief=True), folds, left_out) for folds in (WORDS, PARTS)] if left_out else []
    for form, folds, missing in forms:
        widths = _widths(form, folds, width)
        if widths:
            rounded = form is not full and len(brief.heads) < len(full.heads)
            return FittedTable(_drawn(form, widths), rounded, missing)
    return FittedTable(_listed(full, width))


def _widths(table: Grid, folds: re.Pattern[str], width: int) -> list[int]:
    """The widths of the columns, the widest of text folded until they fit; none where they cannot."""
    natural, least = table.widths, [_least(table, i, folds) for i in range(len(table.heads))]
    for most in range(max(natural, default=0), 0, -1):
        widths = [max(narrow, min(wide, most)) for wide, narrow in zip(natural, least, strict=True)]
        if sum(widths) + GAP * len(widths) <= width:
            return widths
        if widths == least:
            break
    return []


def _least(table: Grid, i: int, folds: re.Pattern[str]) -> int:
    """The least width of a column: figures as they are, text to its longest part."""
    if table.numeric[i]:
        return table.widths[i]
    longest = max(cell_width(part) for cell in table.column(i) for part in folds.split(cell))
    return max(longest, min(table.widths[i], FOLDED))


def _drawn(table: Grid, widths: Sequence[int]) -> RenderableType:
    drawn = Drawing(box=box.SIMPLE_HEAD, show_header=any(table.heads), show_edge=False, padding=(0, 1, 0, 0))
    for head, numeric, width in zip(table.heads, table.numeric, widths, strict=True):
        drawn.add_column(Text(head), justify="right" if numeric else "left", no_wrap=True, width=width)

    def cells(line: tuple[str, ...]) -> list[Text]:
        return [Text("\n".join(folded(cell, width))) for cell, width in zip(line, widths, strict=True)]

    for row in table.rows:
        drawn.add_row(*cells(row))
    if table.footer:
        drawn.add_row(*cells(table.footer), style="bold")
    return Group(Text(table.title, style="bold"), drawn) if table.title else drawn


def _listed(table: Grid, width: int) -> Text:
    """Each record as a list: its first cell as a heading, the others below it."""
    text = Text(f"{table.title}\n" if table.title else "", style="")
    text.stylize("bold")
    for row in [*table.rows, *([table.footer] if table.footer else [])]:
        if row[0]:
            text.append("\n".join(folded(row[0], width)) + "\n", style="bold")
        # a further line of a record, such as the numbers below a formula, has no headings
        for line in _pairs(table.heads, row) if row[0] else filter(None, row):
            text.append("\n".join(folded(line, width, "    ", "  ")) + "\n")
    text.right_crop(1)
    return text


def _pairs(heads: tuple[str, ...], row: tuple[str, ...]) -> list[str]:
    """A line for each column: its heading, the value, and after it the short figure if there is one."""
    lines: list[str] = []
    for head, cell in list(zip(heads, row, strict=True))[1:]:
        if (head or not lines) and cell:
            lines.append(f"{head} {cell}".strip())
        elif cell:
            lines[-1] += f"  {cell}"
    return lines
