"""Tables of an explanation: components, the symbols, steps, growth, approximations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from archcli.measure.report import Column, Table, facts
from archcli.measure.symbolic.explain.components import shortened
from archcli.measure.symbolic.explain.terms import Quantity

Record = Mapping[str, Any]


def tables(quantity: Quantity, totals: Record, rows: Sequence[Record]) -> Iterator[Table]:
    """The tables of a report with these totals and rows."""
    yield _components(quantity, totals, rows)
    yield _symbols(totals)
    for row in rows:
        if "steps" in row:
            yield _steps(quantity, row)
    for growth in totals.get("growth", ()):
        yield _growth(quantity, growth)
    if "approximations" in totals:
        yield _approximations(quantity, totals["approximations"])


def _components(quantity: Quantity, totals: Record, rows: Sequence[Record]) -> Table:
    """Lines for each component: its formula, the same with numbers, the exact value."""
    columns = (
        Column("component", "component", wraps=True),
        Column("share", "share", "share"),
        Column("formula", quantity.title, wraps=True),
    )
    records = [record for row in rows for record in _lines(row["component"], row, row["share"])]
    records += _lines("total", totals, 1.0)
    beside = {key: totals[f"{quantity.beside}_{key}"] for key in ("formula", "numbers", "value")}
    if beside["value"] and beside["formula"] != totals["formula"]:
        records += _lines(quantity.beside_title, beside, None)
    return Table("", columns, records)


def _lines(name: str, row: Record, share: float | None) -> list[dict[str, Any]]:
    """The formula beside the share, then what it equals, without repeating itself."""
    value = f"{row['value']:,}"
    equal = [line for line in (row["numbers"], value) if line not in {row["formula"], str(row["value"])}]
    first = {"component": name, "formula": row["formula"], **({} if share is None else {"share": share})}
    return [first, *({"component": "", "formula": f"= {line}"} for line in dict.fromkeys(equal))]


def _symbols(totals: Record) -> Table:
    columns = (
        Column("symbol", "symbol"),
        Column("value", "value", "number"),
        Column("meaning", "meaning"),
        Column("where", "fields", minor=True, wraps=True),
    )
    records = [{**record, "where": "; ".join(shortened(record["fields"]))} for record in totals["legend"]]
    return Table("Symbols", columns, records)


def _steps(quantity: Quantity, row: Record) -> Table:
    columns = (
        Column("step", "step"),
        Column("formula", "formula", wraps=True),
        Column("numbers", "numbers", wraps=True),
        Column("value", quantity.title, "number"),
    )
    return Table(f"Steps: {row['component']}", columns, row["steps"])


def _growth(quantity: Quantity, growth: Record) -> Table:
    """What one more, one percent more and twice as much of a size do to the total."""
    name = growth["symbol"]
    lines: list[tuple[str, Any, Any]] = [
        ("derivative", growth["derivative"], "text"),
        (f"{quantity.title} that one more adds", round(growth["at"]), "count"),
        ("1% more adds", f"{growth['elasticity']:.3g}%", "text"),
        (f"total with twice the {name}", growth["doubled"], "ratio"),
    ]
    lines += [(_power(name, one["power"]), one["share"], "share") for one in growth["powers"]]
    table = facts(f"Growth with {name} = {growth['value']:,}", *lines)
    return replace(table, columns=[replace(column, wraps=True) for column in table.columns])


def _power(name: str, power: int) -> str:
    if power == 0:
        return f"share without {name}"
    return f"share that grows with {name}" + (f"^{power}" if power > 1 else "")


def _approximations(quantity: Quantity, records: Sequence[Record]) -> Table:
    columns = (
        Column("of", "of"),
        Column("formula", "textbook", wraps=True),
        Column("numbers", "numbers", minor=True, wraps=True),
        Column("value", "value", quantity.unit),
        Column("exact", "exact", quantity.unit),
        Column("error", "error", "share"),
        Column("source", "source", minor=True),
    )
    return Table("Approximations", columns, records)
