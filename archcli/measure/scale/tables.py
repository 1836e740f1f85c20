"""Tables of `archcli scale`: sizes and ratios beside the base's, alternatives, the training."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from archcli.measure.predict.answers.tables import FIGURES
from archcli.measure.report import Column, Fact, Table, Unit, facts
from archcli.measure.scale.fields import Role, ScaledSize
from archcli.measure.scale.search import ChosenShape, aspect_growth
from archcli.measure.scale.solve import ScaleAnswer
from archcli.measure.survey.attributes import architecture_of
from archcli.measure.survey.columns import COLUMNS, describe_architecture
from archcli.modules import Model

Record = dict[str, Any]
SHOWN = (
    "params",
    "active_params",
    "n_layers",
    "d_model",
    "aspect_ratio",
    "d_ff_ratio",
    "head_ratio",
    "n_heads",
    "n_kv_heads",
    "head_dim",
    "state_heads",
    "n_experts",
    "top_k",
    "expert_ratio",
    "kv_bytes_per_token",
)
"""Columns of a survey that stand beside those of the base."""


def size_rows(answer: ScaleAnswer) -> list[Record]:
    """Each size of the base with its value in the result: what changed, the exact value, and the rounding.

    Sizes of one name, value and result are one row with all their paths.
    """
    growth = aspect_growth(answer.base.counts[1], answer.best.shape.active_params)
    width = answer.best.shape.d_model
    wider = width / answer.base.model.d_model
    rows: dict[tuple[Any, ...], Record] = {}
    for size in answer.base.sizes:
        value = answer.best.shape.values.get(size.path, size.value)
        # depth follows the width, less the growth of d_model / n_layers
        exact = {Role.KEPT: size.value, Role.DEPTH: size.value * wider / growth}.get(
            size.role, answer.base.exact(size, width)
        )
        row = {"field": size.name, "base": size.value, "value": value, "exact": exact}
        row |= {"change": _change(size, value, exact), "off": value / exact - 1, "paths": []}
        rows.setdefault((size.name, size.value, value, size.role), row)["paths"].append(size.path)
    return list(rows.values())


def _change(size: ScaledSize, value: int, exact: float) -> str:
    if size.role is Role.KEPT:
        return "kept"
    if size.role is Role.DEPTH or size.path == "d_model":
        return "chosen"
    return "scaled" if value == exact else "rounded"


def size_table(title: str, answer: ScaleAnswer, rows: Sequence[Record]) -> Table:
    """The sizes of base and result, and how far rounding moved each; sizes that are equal once."""
    columns = (
        Column("field", "field"),
        Column("base", answer.base.model.name or "base", "number"),
        Column("value", answer.best.model.name, "number"),
        Column("exact", "exact", "number", minor=True),
        Column("change", ""),
        Column("off", "off", "share", minor=True),
    )
    times = Counter(row["field"] for row in rows)
    shown = [
        {
            **row,
            "field": row["field"] if times[row["field"]] == 1 else row["paths"][0],
            "exact": round(row["exact"], 1),
            # an empty cell rather than 0.0% where nothing was rounded
            "off": row["off"] or None,
        }
        for row in rows
    ]
    changed = [row for row in shown if row["change"] != "kept"]
    kept = [{**row, "exact": None} for row in shown if row["change"] == "kept"]
    return Table(title, columns, [*changed, *kept])


def figure_table(base: Model, best: Model) -> Table:
    """Figures and ratios of base and result, those that either has."""
    records = [describe_architecture(model.name, architecture_of(model)) for model in (base, best)]
    lines: list[Record] = []
    for key in SHOWN:
        values = [record[key] for record in records]
        if values != [None, None]:
            unit: Unit = COLUMNS[key].unit
            names = dict(zip(("base", "value"), values, strict=True))
            lines.append({"what": COLUMNS[key].title, "unit": unit, **names})
    columns = (
        Column("what", ""),
        Column("base", base.name or "base", unit_key="unit"),
        Column("value", best.name, unit_key="unit"),
    )
    return Table("Ratios", columns, lines)


def alternative_rows(answer: ScaleAnswer) -> list[Record]:
    """The next best shapes by JSON's keys."""
    return [shape_record(chosen, answer.params) for chosen in answer.shapes[1:]]


def shape_record(chosen: ChosenShape, params: int) -> Record:
    """A shape: its sizes by path, its parameters, how far they are off, and rules it breaks anew."""
    shape = chosen.shape
    return {
        "d_model": shape.d_model,
        "n_layers": shape.n_layers,
        "params": shape.params,
        "active_params": shape.active_params,
        "off": shape.params / params - 1,
        "cost": chosen.cost,
        "breaks": dict(chosen.broken),
        "values": dict(shape.values),
    }


def alternative_table(answer: ScaleAnswer) -> Table:
    """Result and alternatives, a line each."""
    columns = [Column("d_model", "d_model", "number"), Column("n_layers", "layers", "number")]
    names = dict.fromkeys(
        size.name
        for size in answer.base.sizes
        if size.role in {Role.WIDTH, Role.HEADS, Role.KV_HEADS} and size.name != "d_model"
    )
    columns += [Column(name, name) for name in names]
    columns += [
        Column("params", "params", "count"),
        Column("off", "off", "share", minor=True),
        Column("breaks", "breaks", minor=True),
    ]
    records = [_alternative(chosen, answer, names) for chosen in answer.shapes]
    return Table("Result and alternatives", columns, records)


def _alternative(chosen: ChosenShape, answer: ScaleAnswer, names: Mapping[str, None]) -> Record:
    record = shape_record(chosen, answer.params)
    values = chosen.shape.values
    by_name = {
        name: " / ".join(dict.fromkeys(f"{n:,}" for path, n in values.items() if path.endswith(f".{name}")))
        for name in names
    }
    return {**record, **by_name, "breaks": " ".join(chosen.broken)}


def training_table(totals: Mapping[str, Any]) -> Table:
    """Tokens, steps and FLOPs; days where a device is named."""
    lines: list[Fact] = [
        ("tokens", totals["tokens"], "count"),
        ("tokens per active parameter", round(totals["tokens_per_param"], 1), "number"),
        (f"steps of {totals['batch_tokens']:,} tokens", totals["steps"], "count"),
        ("FLOPs, counted", totals["flops"], "flops"),
        ("FLOPs by 6 N D", totals["flops_6nd"], "flops"),
        ("FLOPs of a token, counted", round(totals["flops_per_token"]), "flops"),
        ("FLOPs of a token by 6 N", totals["flops_per_token_6n"], "flops"),
    ]
    return facts("Training", *lines)


def days_table(totals: Mapping[str, Any]) -> Table:
    """Days and hours of devices, as limit, expected and range; a device without constants has a limit."""
    known = [kind for kind in FIGURES if totals["days"][kind] is not None]
    columns = [Column("what", ""), *(Column(kind, FIGURES[kind], "bits") for kind in known)]
    records = [
        {"what": what, **{kind: totals[key][kind] for kind in known}}
        for key, what in (("days", "days"), ("device_hours", "device hours"))
    ]
    return Table("Time", columns, records)


def law_table(rows: Sequence[Record], law: str) -> Table:
    """What each law says of the FLOPs, and of the size."""
    columns = (
        Column("name", "law"),
        Column("params", "best size", "count"),
        Column("tokens", "tokens", "count"),
        Column("tokens_per_param", "a parameter", "number"),
        Column("tokens_of_shape", "tokens for this size", "count", minor=True),
        Column("loss", "loss", "bits"),
    )
    return Table("What the laws say of these FLOPs", columns, list(_law_lines(rows, law)))


def _law_lines(rows: Sequence[Record], law: str) -> Iterator[Record]:
    for row in rows:
        yield {
            "name": f"{row['law']} *" if row["law"] == law else row["law"],
            "params": round(row["params"]),
            "tokens": round(row["tokens"]),
            "tokens_per_param": round(row["tokens_per_param"], 1),
            "tokens_of_shape": round(row["tokens_of_shape"]),
            "loss": row["loss"],
        }
