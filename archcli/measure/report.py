"""Report: what every command hands to `render`.

Numbers are exact and unrounded here; rounding and units belong to the renderer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Format = Literal["text", "count", "flops", "bytes", "share", "ratio", "seconds", "flag"]
"""How a value reads.

text as it is; count 8.03B beside the integer; flops with a metric prefix; bytes in GiB; share 0…1 in percent; flag as a
tick.
"""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table: the key it shows of each record, its heading, and how the value reads."""

    key: str
    title: str
    format: Format = "text"


@dataclass(frozen=True, slots=True)
class Table:
    """Records and the columns that show them. `footer` is a closing record such as the total."""

    title: str
    columns: Sequence[Column]
    records: Sequence[Mapping[str, Any]]
    footer: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """The result of one command: fixed names for JSON, and tables for people.

    `totals` and `rows` are what `--json` prints; `rows` are also what csv prints. `tables` present the same numbers.
    `convention` is printed under every table; `notes` say what the reader must know, one sentence each.
    """

    command: str
    model: Mapping[str, str]
    inputs: Mapping[str, Any]
    convention: str
    totals: Mapping[str, Any]
    rows: Sequence[Mapping[str, Any]]
    tables: Sequence[Table] = ()
    notes: Sequence[str] = field(default_factory=tuple)
