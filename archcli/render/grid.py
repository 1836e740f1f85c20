"""Grid: a table as text cells, before any format draws it.

Counts, FLOPs and bytes take two columns, the exact figure and the short one, so that both line up.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from archcli.errors import sanitize
from archcli.render.screen import GLUE, cell_width
from archcli.render.values import TWOFOLD, exact, short

if TYPE_CHECKING:
    from archcli.measure.report import Column, Table


WIDEST = 100
"""Columns of a line of a long formula in a pipe."""
OPERATOR = re.compile(r"(?: ([-+])|,) ")


@dataclass(frozen=True, slots=True)
class Grid:
    """Headings, rows of cells and the closing row; `numeric` columns are set flush right."""

    title: str
    heads: tuple[str, ...]
    numeric: tuple[bool, ...]
    rows: tuple[tuple[str, ...], ...]
    footer: tuple[str, ...] | None = None
    widths: tuple[int, ...] = field(init=False)
    """The widest cell of each column, in columns of a terminal."""

    def __post_init__(self) -> None:
        widths = tuple(max(map(cell_width, self.column(i))) for i in range(len(self.heads)))
        object.__setattr__(self, "widths", widths)

    def column(self, i: int) -> list[str]:
        """The cells of a column, its heading and footer included."""
        lines = [self.heads, *self.rows, *([self.footer] if self.footer else [])]
        return [line[i] for line in lines]


def grid(table: Table, *, brief: bool = False, wrapped: bool = False) -> Grid:
    """The cells of a table as text; `brief` leaves the exact figure out where there is a short one.

    With `wrapped`, a record has as many lines as its columns that wrap need, of at most WIDEST columns each.
    """
    cells = _brief if brief else _both
    rows = [cells(table.columns, record) for record in table.records]
    if wrapped and any(column.wraps for column in table.columns):
        rows = [line for row in rows for line in _wrapped(table.columns, row)]
    footer = None if table.footer is None else cells(table.columns, table.footer)
    heads = [cell for column in table.columns for cell in (sanitize(column.title), "")]
    numeric = [flag for column in table.columns for flag in (_numeric(table, column), True)]
    lines = [*rows, *([footer] if footer else [])]
    # every second column has short figures, and goes where no record has one
    kept = [i for i, head in enumerate(heads) if i % 2 == 0 or head or any(line[i] for line in lines)]

    def pick(line: list[Any]) -> tuple[Any, ...]:
        return tuple(line[i] for i in kept)

    return Grid(
        sanitize(table.title),
        pick(heads),
        pick(numeric),
        tuple(map(pick, rows)),
        pick(footer) if footer else None,
    )


def _wrapped(columns: Sequence[Column], row: Sequence[str]) -> Iterator[list[str]]:
    """A row as lines; a formula breaks after an operator, so that the lines can be pasted as one."""
    wraps = [flag for column in columns for flag in (column.wraps, False)]
    parts = [_broken(cell) if flag else [cell] for cell, flag in zip(row, wraps, strict=True)]
    yield from (list(line) for line in zip_longest(*parts, fillvalue=""))


def _broken(cell: str) -> list[str]:
    """The lines of a cell, the further ones indented by two."""
    # lines break at plain blanks: one is left behind + and -, none behind a comma
    glued = OPERATOR.sub(lambda sign: f"{GLUE}{sign[1]} " if sign[1] else f",{GLUE}", cell)
    lines = wrap(
        glued, WIDEST, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )  # names stay whole
    return [line.replace(GLUE, " ") for line in lines] or [""]


def _both(columns: Sequence[Column], record: Mapping[str, Any]) -> list[str]:
    """Two cells per column: the exact value, and the short one where the unit has one."""
    cells = []
    for column in columns:
        value, unit = record.get(column.key, ""), column.unit_of(record)
        mark = "~" if column.key in record.get("estimates", ()) else ""
        short_form = short(value, unit) if unit in TWOFOLD else ""
        cells += [f"{mark}{exact(value, unit)}", short_form and f"{mark}{short_form}"]
    return cells


def _brief(columns: Sequence[Column], record: Mapping[str, Any]) -> list[str]:
    """The grid with short values in place of exact ones."""
    both = _both(columns, record)
    return [cell for pair in zip(both[::2], both[1::2], strict=True) for cell in (pair[1] or pair[0], "")]


def _numeric(table: Table, column: Column) -> bool:
    values = [record.get(column.key) for record in table.records]
    return all(value is None or isinstance(value, int | float) for value in values)
