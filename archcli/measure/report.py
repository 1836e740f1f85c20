"""Report: what every command hands to `render`.

Numbers are exact and unrounded here; rounding and units belong to the renderer.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, overload

if TYPE_CHECKING:
    import pandas as pd

RENDER = "archcli.render"
"""The package that draws reports: by name, as it reads them and so cannot be imported here."""

Unit = Literal[
    "text",
    "number",
    "count",
    "flops",
    "macs",
    "bytes",
    "share",
    "ratio",
    "seconds",
    "bits",
    "flag",
    "date",
    "gflop",
    "millions",
    "fine_share",
]
"""How a value is printed.

text as it is; number with all its digits; count 8.03B beside the integer; flops and macs with a metric
prefix, bytes with a binary one, also beside the integer; share 0…1 in percent; ratio as a multiple; bits,
an average, to four figures; flag as a tick; date a year, or a year and a month. Of fixed width, for papers'
tables: gflop 1e9 to three decimals, millions 1e6 to two, fine_share percent to two.
"""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: the key of a record that it shows, its heading, and the unit of the value.

    `unit_key` names the key under which a record may state another unit. A `minor` column is left out where a
    terminal is too narrow for all. Text of a column that `wraps`, such as a long formula, goes on in further
    lines in a pipe, too.
    """

    key: str
    title: str
    unit: Unit = "text"
    unit_key: str = ""
    minor: bool = False
    wraps: bool = False

    def unit_of(self, record: Mapping[str, Any]) -> Unit:
        """The unit of a record's value."""
        unit: Unit = record.get(self.unit_key, self.unit)
        return unit


@dataclass(frozen=True, slots=True)
class Table:
    """Records, and the columns that show them. `footer` is a last record such as the total.

    A record's `estimates`, where it has any, are the keys of the values that are printed with `~`.
    """

    title: str
    columns: Sequence[Column]
    records: Sequence[Mapping[str, Any]]
    footer: Mapping[str, Any] | None = None


class LateTables(Sequence[Table]):
    """Tables that are made when they are first read: json, csv and programs read none."""

    def __init__(self, make: Callable[[], Iterable[Table]]) -> None:
        self._make = make

    @cached_property
    def _tables(self) -> tuple[Table, ...]:
        return tuple(self._make())

    def __len__(self) -> int:
        return len(self._tables)

    @overload
    def __getitem__(self, index: int) -> Table: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Table]: ...
    def __getitem__(self, index: int | slice) -> Table | Sequence[Table]:
        return self._tables[index]


@dataclass(frozen=True, slots=True, repr=False)
class Report:
    """The result of a command: fixed names for programs, and tables for people.

    command, model: what was asked, and the name and source of the model.
    headline: the answer, the first line.
    title: the settings, the second line; left out, command and inputs.
    inputs: the options of the command; a heading leaves out those with their `usual` values.
    totals, rows: exact numbers under fixed names. keys: those of every row, stated where there may be none.
    tables: the same numbers for people. convention: a line below every table.
    notes: a sentence each. not_modelled: what predicted figures leave out, a sentence each.

    `print(report)` shows the tables, a notebook draws them. `f"{report:md}"` gives another format: plain,
    table, md, html, json or csv.

    Example: `count_params("gpt2").totals["params"]` is 124,439,808.
    """

    command: str
    model: Mapping[str, str]
    inputs: Mapping[str, Any]
    convention: str
    totals: Mapping[str, Any]
    rows: Sequence[Mapping[str, Any]]
    tables: Sequence[Table] = ()
    notes: Sequence[str] = field(default_factory=tuple)
    usual: Mapping[str, Any] = field(default_factory=dict)
    keys: Sequence[str] = ()
    title: str = ""
    not_modelled: Sequence[str] = ()
    headline: str = ""

    def __format__(self, form: str) -> str:
        # the format is empty for str() and for an f-string that states none
        text: str = import_module(RENDER).formatted(self, form or "plain")
        return text.removesuffix("\n")

    def __repr__(self) -> str:
        return format(self)

    def _repr_html_(self) -> str | None:
        """The tables as a notebook draws them; None for formulas in LaTeX, which it typesets."""
        return None if "latex" in self.totals else format(self, "html")

    def _repr_latex_(self) -> str | None:
        """The formulas of `explain` with `latex`, as a notebook typesets them; None of other answers."""
        if "latex" not in self.totals:
            return None
        text: str = import_module(f"{RENDER}.notebook").latex(self)
        return "\n".join(line for line in text.splitlines() if not line.startswith("%"))

    def to_dict(self) -> dict[str, Any]:
        """The object that the command prints with `--json`: plain dicts, lists, texts and numbers."""
        # by way of the text, so that it is what --json prints: str keys, lists, plain numbers
        document: dict[str, Any] = json.loads(format(self, "json"))
        return document

    def to_pandas(self, table: str | int | None = None) -> pd.DataFrame:
        """The rows as a DataFrame, or the records of the table with this title or place (needs pandas).

        Whole numbers stay exact. Raises ArchError where pandas is not installed, or no table has the title.
        """
        frame: pd.DataFrame = import_module(f"{RENDER}.notebook").frame(self, table)
        return frame


Fact = tuple[str, Any, Unit]
"""A line of a table of facts: title, value, unit."""


def facts(title: str, *lines: Fact) -> Table:
    """A table with a line for each fact."""
    records = [{"what": what, "value": value, "unit": unit} for what, value, unit in lines]
    return Table(title, (Column("what", ""), Column("value", "", unit_key="unit")), records)
