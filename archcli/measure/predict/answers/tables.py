"""Tables of `archcli predict`: the three figures, what takes the time, and rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from archcli.measure.predict.answers.question import PredictQuestion
from archcli.measure.predict.answers.totals import FIGURES
from archcli.measure.report import Column, Table, Unit
from archcli.modules.models.layers import folded_path

Record = dict[str, Any]
ROWS = 8
TIMES = {
    "train": "time of a step",
    "forward": "time of the forward",
    "prefill": "time of the prefill",
    "decode": "time of a token of each sequence",
    "serve": "time of all",
}


def figures_table(title: str, question: PredictQuestion, totals: Record) -> Table:
    """Times and rates, each as limit, expected and range; without constants the limit alone."""
    known = [name for name, value in totals["time_s"].items() if value is not None]
    minor = {"floor"} if len(known) > 1 else set[str]()
    columns = [Column("what", "")]
    columns += [Column(name, FIGURES[name], unit_key="unit", minor=name in minor) for name in known]
    return Table(title, columns, list(_figures(question, totals)))


def _figures(question: PredictQuestion, totals: Record) -> Iterator[Record]:
    yield _line(TIMES[question.phase], "seconds", totals["time_s"])
    if question.phase == "serve":
        yield _line("time to first token", "seconds", totals["first_token_s"])
        yield _line("time per token after it", "seconds", totals["per_token_s"])
    yield _line("tokens/s", "number", _rounded(totals["tokens_per_s"]))
    if totals["devices"] > 1:
        yield _line("tokens/s of a device", "number", _rounded(totals["tokens_per_s_per_device"]))
    yield _line("MFU", "share", _shares(totals))
    if "cost" in totals:
        if any(totals["cost"]["tokens_per_unit"].values()):
            line = _rounded(totals["cost"]["tokens_per_unit"])
            yield _line("tokens per unit of currency", "number", line)
        yield _line("price of a million tokens", "bits", totals["cost"]["per_million_tokens"])
    if "training" in totals:
        training = totals["training"]
        yield _line("days in all", "number", _rounded(training["days"]))
        yield _line("device hours", "number", _rounded(training["device_hours"]))
        if training["cost"]:
            yield _line("cost", "number", _rounded(training["cost"]))
        if training["energy_kwh_at_most"]:
            yield _line("kWh, at most (TDP)", "number", _rounded(training["energy_kwh_at_most"]))


def _line(what: str, unit: Unit, figures: Mapping[str, float | None]) -> Record:
    return {"what": what, "unit": unit, **figures}


def _shares(totals: Record) -> Record:
    """MFU at each of the times."""
    times = totals["time_s"]
    at = totals["mfu"] * (times["floor"] if times["expected"] is None else times["expected"])
    shares = {name: None if seconds is None else at / seconds for name, seconds in times.items()}
    return {**shares, "low": shares["high"], "high": shares["low"]}


def _rounded(figures: Mapping[str, float | None]) -> Record:
    """Figures to four digits, whole ones where they are large: more would claim what nobody knows."""
    return {name: None if value is None else to_four(value) for name, value in figures.items()}


def to_four(value: float) -> float | int:
    """Four digits of a figure; a whole number from 1,000 on."""
    rounded = float(f"{value:.4g}")
    return int(rounded) if rounded >= 1000 else rounded  # noqa: PLR2004


def limit_table(limits: Sequence[Record], kind: str) -> Table:
    """What the seconds are spent on."""
    columns = (Column("what", "what"), Column("time_s", "time", "seconds"), Column("share", "share", "share"))
    return Table(f"what takes the time ({FIGURES[kind]})", columns, limits)


def row_table(rows: Sequence[Record], total: float, kind: str) -> Table:
    """The rows that take most, those of all layers together."""
    folded: dict[tuple[str, str], Record] = {}
    for row in rows:
        key = (folded_path(row["path"]), row["stage"])
        record = folded.setdefault(
            key, {"path": key[0], "stage": key[1], "flops": 0, "bytes": 0, "time_s": 0.0}
        )
        longest = record.setdefault("longest", row["time_s"])
        if row["time_s"] >= longest:
            record |= {"longest": row["time_s"], "bound_by": row["bound_by"]}
        for name in ("flops", "bytes", "time_s"):
            record[name] += row[name]
    records = sorted(folded.values(), key=lambda record: -record["time_s"])
    shown = [{**record, "share": record["time_s"] / total} for record in records[:ROWS]]
    stages = len({record["stage"] for record in records}) > 1
    columns = (
        Column("path", "path"),
        *((Column("stage", "in"),) * stages),
        Column("time_s", "time", "seconds"),
        Column("share", "share", "share"),
        Column("bound_by", "bound by"),
    )
    hidden = len(records) - ROWS
    more = f"; {hidden} more in --json" if hidden > 0 else ""
    return Table(f"rows that take most time ({FIGURES[kind]}){more}", columns, shown)
