"""The report of `archcli scale`: a sentence, the shape beside its base, alternatives, the training."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from archcli.measure.notes import context_notes
from archcli.measure.report import Column, Fact, Report, Table, Unit, facts
from archcli.measure.survey.attributes import architecture_of
from archcli.measure.survey.columns import COLUMNS, describe_architecture
from archcli.modules import Model
from archcli.units import three_figures
from archcli.wings.shapes.scale.fields import Role, ScaledSize
from archcli.wings.shapes.scale.laws import LAWS, law_rows, training_totals
from archcli.wings.shapes.scale.search import INFO, ChosenShape, aspect_growth
from archcli.wings.shapes.scale.solve import ScaleAnswer, ScaleProblem

Record = dict[str, Any]
UNITS = ((10**12, "T"), (10**9, "B"), (10**6, "M"))


def sentence(problem: ScaleProblem, answer: ScaleAnswer, totals: Mapping[str, Any]) -> str:
    """The answer in words.

    `3.04B parameters: d_model 2,560, 28 layers. The law besiroglu asks for 65.4B tokens, 21.5 a parameter
    (1.12e+21 FLOPs).`
    """
    shape = f"d_model {totals['d_model']:,}, {totals['n_layers']:,} layers"
    return f"{_short(totals['params'])} parameters: {shape}. {', '.join(_training(problem, answer, totals))}."


def _training(problem: ScaleProblem, answer: ScaleAnswer, totals: Mapping[str, Any]) -> Iterator[str]:
    """The tokens and who asks for them, then the time on the devices."""
    settings = problem.settings
    asks = f"The law {settings.law} asks for" if settings.params is not None else "The budget pays for"
    of_which = (
        "a parameter" if answer.cost.active_params == answer.best.shape.params else "an active parameter"
    )
    per_param = f"{totals['tokens_per_param']:,.1f} {of_which}"
    yield f"{asks} {_short(totals['tokens'])} tokens, {per_param} ({totals['flops']:.3g} FLOPs)"
    if answer.step is not None:
        yield answer.step.in_words(totals["days"])


def _short(number: int) -> str:
    size, unit = next((pair for pair in UNITS if number >= pair[0]), (1, ""))
    return f"{three_figures(number / size)}{unit}"


CONVENTION = (
    "Parameters are all of them, also of a mixture; laws count active ones. Widths and heads grow with "
    "d_model, d_model / n_layers follows GPT-3's table 2.1, all else is kept. FLOPs are those of matrix "
    "products in training, forward and backward. Laws count 6 N D and were fitted to dense decoders."
)
FAR_OFF = 0.02
"""Share of the size by which a result is off enough to say so."""
STEPS = "widths go by tiles and heads, layers by patterns"
KEYS = ("field", "base", "value", "exact", "change", "off", "paths")


def scale_report(problem: ScaleProblem, answer: ScaleAnswer) -> Report:
    """The report of `archcli scale`."""
    totals, rows = _totals(problem, answer), size_rows(answer)
    return Report(
        command="scale",
        model={"name": problem.model.name, "source": problem.model.source},
        inputs=_inputs(problem, answer),
        convention=CONVENTION,
        totals=totals,
        rows=rows,
        tables=tuple(_tables(problem, answer, totals, rows)),
        notes=tuple(_notes(problem, answer, totals)),
        keys=KEYS,
        headline=totals["sentence"],
        not_modelled=answer.step.prediction.not_modelled if answer.step else (),
    )


def _inputs(problem: ScaleProblem, answer: ScaleAnswer) -> Record:
    settings = problem.settings
    goals = {"params": settings.params, "compute": settings.compute, "hours": settings.hours}
    inputs: Record = {name: value for name, value in goals.items() if value is not None}
    inputs |= {"law": settings.law, "seq_len": answer.cost.seq_len, "batch_tokens": settings.batch_tokens}
    if problem.devices is not None:
        inputs |= problem.devices.inputs()
    return {**inputs, **({"keep": list(settings.keep)} if settings.keep else {})}


def _totals(problem: ScaleProblem, answer: ScaleAnswer) -> Record:
    record = shape_record(answer.best, answer.params)
    totals: Record = {"name": answer.best.model.name, "asked_params": answer.params, **record}
    totals |= training_totals(answer.cost, answer.tokens, problem.settings.batch_tokens)
    totals["days"] = None
    if answer.step is not None:
        totals |= answer.step.record(answer.tokens)
    # the N of the laws are the active parameters
    totals["laws"] = law_rows(answer.best.shape.active_params, totals["flops"])
    totals["alternatives"] = alternative_rows(answer)
    return {**totals, "sentence": sentence(problem, answer, totals)}


def _tables(
    problem: ScaleProblem, answer: ScaleAnswer, totals: Record, rows: list[Record]
) -> Iterator[Table]:
    yield size_table(answer, rows)
    yield figure_table(problem.model, answer.best.model)
    yield alternative_table(answer)
    yield training_table(totals)
    if answer.step is not None:
        yield answer.step.table(totals)
    yield law_table(totals["laws"], problem.settings.law)


def _notes(problem: ScaleProblem, answer: ScaleAnswer, totals: Record) -> Iterator[str]:
    law, off = LAWS[problem.settings.law], totals["off"]
    if abs(off) > FAR_OFF:
        nearest = f"{totals['params']:,} of {answer.params:,}"
        yield f"The best shape is {off:+.1%} off the size, {nearest}: {STEPS}."
    broken = [code for code, severity in answer.best.broken.items() if severity != INFO]
    noted = [code for code, severity in answer.best.broken.items() if severity == INFO]
    if broken:
        yield f"It breaks {', '.join(broken)}, which the base keeps: archcli rule {broken[0]}."
    if noted:
        yield f"archcli check gives information that it does not give for the base: {', '.join(noted)}."
    if problem.siblings:
        yield f"n_kv_heads is kept, as all presets of its family have it: {', '.join(problem.siblings)}."
    yield f"Law: {law.source}; {law.doubt}."
    if answer.cost.active_params != answer.best.shape.params:
        yield "The laws were fitted to dense models; for this one N is its active parameters."
    yield from context_notes(answer.best.model, answer.cost.seq_len)
    if answer.step is not None:
        yield from answer.step.notes()


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


def size_table(answer: ScaleAnswer, rows: Sequence[Record]) -> Table:
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
    return Table("sizes", columns, [*changed, *kept])


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
