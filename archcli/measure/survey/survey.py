"""Survey: many architectures by columns, and the spread of each figure over all, a year or a series."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from archcli.errors import as_int
from archcli.measure.report import Column, Report, Table
from archcli.measure.survey.attributes import format_tally
from archcli.measure.survey.columns import (
    COLUMNS,
    CONDITIONS,
    DIFFERING,
    SECTIONS,
    SOME,
    SurveyColumn,
    legend,
)
from archcli.measure.survey.presets import column_of, select
from archcli.modules.spec.arguments import By
from archcli.units import short_count

Record = dict[str, Any]

QUARTILES = "Quartiles interpolate between neighbours."
UNSTATED = "not stated"
GROUP = ("column", "title", "unit", "n", "min", "q1", "median", "q3", "max")
"""Keys of the spread of a figure."""

SPREAD = (
    Column("n", "models", "number"),
    *(
        Column(key, title, unit_key="unit")
        for key, title in [("min", "least"), ("q1", "25%"), ("median", "median")]
    ),
    *(Column(key, title, unit_key="unit") for key, title in [("q3", "75%"), ("max", "most")]),
)


def survey_records(
    described: Sequence[Record],
    columns: Sequence[str] = (),
    where: Sequence[str] = (),
    sort: str | None = None,
    by: By | None = None,
    more: Sequence[SurveyColumn] = (),
) -> Report:
    """The report of `archcli survey` on described models; `columns` defaults to all of archcli's own.

    `more` are columns of other packages, whose values the records have as well.

    `rows` are the models, or with `by` the spread of each figure in each group. Raises ArchError for unknown
    columns.
    """
    known = {**COLUMNS, **{column.key: column for column in more}}
    conditions = (*CONDITIONS, *(column.column for column in more))
    wanted = [column_of(key, conditions, "--columns").key for key in columns]
    records = select(described, conditions, where, sort)
    shown = [known[key] for key in dict.fromkeys(wanted) if key in known] or list(COLUMNS.values())
    spread = list(spreads(records, shown))
    groups = [] if by is None else list(_grouped(records, shown, by))
    return Report(
        command="survey",
        model={},
        inputs={"columns": list(columns), "where": list(where), "sort": sort, "by": by},
        convention=_convention(shown, spread),
        totals={"models": len(records), "spread": {entry["column"]: entry for entry in spread}},
        rows=groups if by else [_chosen(record, shown) for record in records],
        tables=tuple(
            _by_tables(groups, spread, by) if by else _tables(records, shown, spread, listed=bool(columns))
        )
        if records
        else (),
        notes=() if records else ("no model meets the conditions.",),
        keys=(by, *GROUP) if by else ("name", *(column.key for column in shown), "mixed"),
        headline=_headline(records),
    )


def _headline(records: Sequence[Record]) -> str:
    """`4 models of 124M to 671B parameters`."""
    sizes = [record["params"] for record in records if record.get("params") is not None]
    models = f"{len(records):,} model{'' if len(records) == 1 else 's'}"
    if not sizes:
        return models
    least, most = short_count(min(sizes)), short_count(max(sizes))
    return f"{models} of {least} {f'to {most} ' if most != least else ''}parameters"


def _convention(shown: Sequence[SurveyColumn], spread: Sequence[Record]) -> str:
    """How to read the columns that are shown."""
    sentences = [legend([column.key for column in shown])]
    sentences += [DIFFERING] if any(column.of_layer for column in shown) else []
    sentences += [QUARTILES] if spread else []
    return " ".join(filter(None, sentences))


def spreads(records: Sequence[Record], shown: Iterable[SurveyColumn]) -> Iterator[Record]:
    """For each figure that some record has: how many have it, least, quartiles, median and most."""
    from statistics import median, quantiles

    for column in shown:
        values = [
            record[column.key] for record in records if column.is_figure and record[column.key] is not None
        ]
        if values:
            # inclusive: quartiles lie within the values; of a single value all are that one
            q1, _, q3 = quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3
            figures = {"min": min(values), "q1": q1, "median": median(values), "q3": q3, "max": max(values)}
            exact = {
                key: value if isinstance(value, int) else as_int(value) for key, value in figures.items()
            }
            yield {
                "column": column.key,
                "title": column.title,
                "unit": column.unit,
                "n": len(values),
                **exact,
            }


def _grouped(records: Sequence[Record], shown: Iterable[SurveyColumn], by: By) -> Iterator[Record]:
    """The spread of each figure in each group, groups in order, those that state none last."""
    figures = [column for column in shown if column.is_figure]
    names = sorted({record[by] for record in records if record[by] is not None})
    for name in [*names, None]:
        group = [record for record in records if record[by] == name]
        yield from ({by: UNSTATED if name is None else name, **entry} for entry in spreads(group, figures))


def _chosen(record: Record, shown: Iterable[SurveyColumn]) -> Record:
    """The record for JSON and CSV: name, chosen columns, and values that differ between layers."""
    keys = [column.key for column in shown]
    mixed = {key: values for key, values in record["mixed"].items() if key in keys}
    return {"name": record["name"], **{key: record[key] for key in keys}, "mixed": mixed}


def _tables(
    records: list[Record], shown: list[SurveyColumn], spread: list[Record], *, listed: bool
) -> Iterator[Table]:
    """One table of the requested columns; without a request one table per section."""
    if listed:
        records = [{**record, "year": _text(record["year"])} for record in records]
        yield Table("", [Column("name", "model"), *(column.column for column in shown)], records)
    else:
        yield from (
            _section(section, records)
            for section in SECTIONS
            if section not in SOME or _having(section, records)
        )
    mixed = list(_mixed(records, [column for column in shown if listed or column.section]))
    if mixed:
        yield Table(
            "Layers that differ",
            (Column("name", "model"), Column("title", "figure"), Column("values", "values")),
            mixed,
        )
    if spread:
        yield Table("Spread", (Column("title", "figure"), *SPREAD), spread)


def _text(year: int | str | None) -> str | None:
    """The value as text, so that a year has no thousands separator."""
    return None if year is None else str(year)


def _having(section: str, records: list[Record]) -> list[Record]:
    """The records that a section is of: all of them, or those with a value in its column."""
    key = SOME.get(section)
    return [record for record in records if key is None or record[key] is not None]


def _section(section: str, records: list[Record]) -> Table:
    columns = [
        Column("name", "model"),
        *(column.column for column in COLUMNS.values() if column.section == section),
    ]
    return Table(section, columns, _having(section, records))


def _mixed(records: list[Record], shown: Iterable[SurveyColumn]) -> Iterator[Record]:
    for record in records:
        for column in shown:
            values = record["mixed"].get(column.key)
            if values:
                rounded = {_rounded(value, column): times for value, times in values}
                yield {"name": record["name"], "title": column.title, "values": format_tally(rounded)}


def _rounded(value: Any, column: SurveyColumn) -> Any:
    return f"{value:.3g}" if column.unit == "ratio" and value is not None else value


def _by_tables(groups: list[Record], spread: list[Record], by: By) -> Iterator[Table]:
    """A table for each figure: a line for each group, and all models below."""
    for entry in spread:
        records = [{**group, by: _text(group[by])} for group in groups if group["column"] == entry["column"]]
        yield Table(entry["title"], (Column(by, by), *SPREAD), records, {**entry, by: "all"})
