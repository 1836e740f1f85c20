"""The list of presets, and the records of a table that meet conditions, in the order of a column.

A condition is `params>10B`, an order `params:desc`. A column is named by its key or its heading, and its unit
says how a value is read (`archcli.query`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from archcli.errors import ArchError, Problem, quote
from archcli.measure.report import Column, Report, Table
from archcli.measure.survey.columns import CONDITIONS, DTYPE
from archcli.query.condition import Condition, parse_condition
from archcli.query.expression import Phrase
from archcli.query.vocabulary import ColumnNames

Record = Mapping[str, Any]

ORDERS = {"": False, "asc": False, "desc": True}
LISTED = "`archcli survey -h` lists the columns"


def select(
    records: Sequence[dict[str, Any]],
    columns: Sequence[Column],
    where: Sequence[str] = (),
    sort: str | None = None,
) -> list[dict[str, Any]]:
    """The records that meet all conditions, in the order of a column if one is named.

    Raises ArchError with everything that is wrong.
    """
    names = ColumnNames(columns, LISTED)
    problems: list[Problem] = []
    tests: list[Callable[[Record], bool]] = []
    for text in where:
        try:
            tests.append(_test(parse_condition(text, names, "--where ")))
        except ArchError as error:
            problems.extend(error.problems)
    order = None if sort is None else _order(sort, names, problems)
    if problems:
        raise ArchError(problems)
    chosen = [record for record in records if all(meets(record) for meets in tests)]
    return chosen if order is None else _sorted(chosen, *order)


def _test(condition: Condition) -> Callable[[Record], bool]:
    return lambda record: bool(condition.holds(lambda what: record.get(str(what))))


def _order(text: str, names: ColumnNames, problems: list[Problem]) -> tuple[str, bool] | None:
    """(key of the column, whether the largest is first) of `params:desc`."""
    phrase, (name, colon, order) = Phrase(text, "--sort "), text.partition(":")
    term = names.find(name.strip())
    if term is None:
        problems.extend(phrase.fault(0, len(name), *names.unknown(name.strip())).problems)
    if order not in ORDERS:
        hint = "write COLUMN:desc for the largest first"
        start = len(name) + len(colon)
        problems.extend(phrase.fault(start, len(order), f"unknown order {quote(order)}", hint).problems)
    return None if term is None or order not in ORDERS else (term.key, ORDERS[order])


def column_of(name: str, columns: Sequence[Column], option: str) -> Column:
    """The column of a key or heading; ArchError with the nearest where there is none."""
    names = ColumnNames(columns, LISTED)
    term = names.find(name)
    if term is None:
        raise ArchError(Problem(*names.unknown(name), path=option))
    return next(column for column in columns if column.key == term.key)


def _sorted(records: list[dict[str, Any]], key: str, descending: bool) -> list[dict[str, Any]]:
    """The records sorted by the column, those without a value last."""
    with_value = [record for record in records if record.get(key) is not None]
    without = [record for record in records if record.get(key) is None]
    return sorted(with_value, key=lambda record: record[key], reverse=descending) + without


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
    options = {"where": list(where), "sort": sort}
    return Report(
        command="list",
        model={},
        inputs={"dtype": DTYPE} | {key: value for key, value in options.items() if value},
        convention=CONVENTION,
        totals={"models": len(chosen)},
        rows=chosen,
        tables=(Table("", _columns(), chosen),),
        notes=() if chosen else ("no preset meets the conditions.",),
        keys=KEYS,
        headline=number_of("presets", len(chosen), len(records), where),
    )


def number_of(what: str, n: int, of: int, where: Sequence[str]) -> str:
    """`254 presets`, and with conditions `20 of 254 presets with series=llama`."""
    return f"{n:,} of {of:,} {what} with {' and '.join(where)}" if where else f"{n:,} {what}"


def _columns() -> list[Column]:
    columns = {column.key: column for column in CONDITIONS}
    titles = {"name": "preset"}
    return [
        Column(key, titles.get(key, columns[key].title), columns[key].unit, minor=key in MINOR)
        for key in SHOWN
    ]
