"""The list of presets: a line for each architecture, of the columns that a survey has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from archcli.measure.report import Column, Report, Table
from archcli.measure.survey.columns import CONDITIONS, DTYPE
from archcli.measure.survey.filter import select

CONVENTION = (
    "Active: parameters per token. KV: cache per token while the context is shorter than every window, "
    f"in {DTYPE}. --where and --sort take every column of `archcli survey`."
)
MINOR = ("layers", "attention", "pattern", "max_seq_len")
SHOWN: tuple[str, ...] = (
    "name",
    "series",
    "released",
    "params",
    "active_params",
    "layers",
    "attention",
    "pattern",
)
SHOWN += ("kv_bytes_per_token", "max_seq_len")
KEYS: tuple[str, ...] = (
    "name",
    "series",
    "released",
    "kind",
    "params",
    "active_params",
    "layers",
    "d_model",
    "vocab_size",
)
KEYS += ("attention", "pattern", "kv_bytes_per_token", "max_seq_len", "source")
"""Keys of the JSON; a table has those of `SHOWN`."""


def list_models(
    records: Sequence[dict[str, Any]], where: Sequence[str] = (), sort: str | None = None
) -> Report:
    """The report of `archcli list`: the records of a survey that meet all conditions, in brief."""
    chosen = [{key: record[key] for key in KEYS} for record in select(records, CONDITIONS, where, sort)]
    asked = {"where": list(where), "sort": sort}
    return Report(
        command="list",
        model={},
        inputs={"dtype": DTYPE} | {key: value for key, value in asked.items() if value},
        convention=CONVENTION,
        totals={"models": len(chosen)},
        rows=chosen,
        tables=(Table("", _columns(), chosen),),
        notes=() if chosen else ("no preset meets the conditions.",),
        keys=KEYS,
    )


def _columns() -> list[Column]:
    columns = {column.key: column for column in CONDITIONS}
    titles = {"name": "preset"}
    return [
        Column(key, titles.get(key, columns[key].title), columns[key].unit, minor=key in MINOR)
        for key in SHOWN
    ]
