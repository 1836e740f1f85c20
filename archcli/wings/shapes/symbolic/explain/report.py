"""The report of `archcli explain`: the closed form of each component, with numbers, steps and growth."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from archcli.measure.notes import context_notes, form_notes, source_notes
from archcli.measure.passes import usual_sizes
from archcli.measure.report import Column, Report, Table, facts
from archcli.modules import Model
from archcli.wings.shapes.symbolic.explain.answer import Answer, answered
from archcli.wings.shapes.symbolic.explain.components import Component, shortened
from archcli.wings.shapes.symbolic.explain.growth import growth_of
from archcli.wings.shapes.symbolic.explain.question import Question, legend, named
from archcli.wings.shapes.symbolic.explain.terms import Quantity
from archcli.wings.shapes.symbolic.explain.text import figure, latex, names, numbered, steps_of
from archcli.wings.shapes.symbolic.explain.textbook import approximations, textbook_line

Entry = Mapping[str, Any]


def tables(quantity: Quantity, totals: Entry, rows: Sequence[Entry]) -> Iterator[Table]:
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


def _components(quantity: Quantity, totals: Entry, rows: Sequence[Entry]) -> Table:
    """Lines for each component: its formula, the same with numbers, the exact value."""
    columns = (
        Column("component", "component", wraps=True),
        Column("share", "share", "share"),
        Column("formula", quantity.title, wraps=True),
    )
    records = [record for row in rows for record in _lines(row["component"], row, row["share"])]
    records += _lines("total", totals, 1.0)
    further = {key: totals[f"{quantity.second}_{key}"] for key in ("formula", "numbers", "value")}
    # active parameters are said once where all are active
    if further["value"] and further["formula"] != totals["formula"]:
        records += _lines(quantity.beside_title, further, None)
    return Table("", columns, records)


def _lines(name: str, row: Entry, share: float | None) -> list[dict[str, Any]]:
    """The formula beside the share, then what it equals, without repeating itself."""
    value = f"{row['value']:,}"
    equal = [line for line in (row["numbers"], value) if line not in {row["formula"], str(row["value"])}]
    first = {"component": name, "formula": row["formula"], **({} if share is None else {"share": share})}
    return [first, *({"component": "", "formula": f"= {line}"} for line in dict.fromkeys(equal))]


def _symbols(totals: Entry) -> Table:
    columns = (
        Column("symbol", "symbol"),
        Column("value", "value", "number"),
        Column("meaning", "meaning"),
        Column("where", "fields", minor=True, wraps=True),
    )
    records = [{**record, "where": "; ".join(shortened(record["fields"]))} for record in totals["legend"]]
    return Table("Symbols", columns, records)


def _steps(quantity: Quantity, row: Entry) -> Table:
    columns = (
        Column("step", "step"),
        Column("formula", "formula", wraps=True),
        Column("numbers", "numbers", wraps=True),
        Column("value", quantity.title, "number"),
    )
    return Table(f"Steps: {row['component']}", columns, row["steps"])


def _growth(quantity: Quantity, growth: Entry) -> Table:
    """What one more, one percent more and twice as much of a size do to the total."""
    name = growth["symbol"]
    lines: list[tuple[str, Any, Any]] = [
        ("derivative", growth["derivative"], "text"),
        (f"{quantity.title} that one more adds", round(growth["at"]), "count"),
        ("1% more adds", f"{growth['elasticity']:.3g}%", "text"),
        (f"total with twice the {name}", growth["doubled"], "ratio"),
    ]
    lines += [(_power(name, term["power"]), term["share"], "share") for term in growth["powers"]]
    table = facts(f"Growth with {name} = {growth['value']:,}", *lines)
    return replace(table, columns=[replace(column, wraps=True) for column in table.columns])


def _power(name: str, power: int) -> str:
    if power == 0:
        return f"share without {name}"
    return f"share that grows with {name}" + (f"^{power}" if power > 1 else "")


def _approximations(quantity: Quantity, records: Sequence[Entry]) -> Table:
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


CONVENTION = (
    "Formulas are read off the forward of this architecture and checked: put into them, its numbers give "
    "the exact count."
)
LETTERS = (
    "Textbook letters: L layers (those that have the component), d d_model, V vocab_size, T tokens in all, "
    "S tokens of a sequence."
)
LONGEST_FORMULA, MOST_NAMED = 160, 3
"""Characters of a formula in the first line; for a longer one the number of components named instead."""
Meaning = Callable[[Any, str], str]
Record = dict[str, Any]


def explain(model: Model, question: Question, meaning: Meaning) -> Report:
    """The report of a question; `meaning` says what a field of a class means."""
    answer = answered(model, question)
    rows = [_row(answer, part) for part in answer.components]
    totals = _totals(answer, meaning)
    for row in rows:
        row["share"] = row["value"] / totals["value"] if totals["value"] else 0.0
    return Report(
        command="explain",
        # a tower has no name or source
        model={} if question.part else {"name": model.name, "source": model.source},
        inputs=_inputs(answer),
        usual={**usual_sizes(answer.counted.phase), "mask": "exact"},
        convention=" ".join(_convention(question)),
        totals=totals,
        rows=rows,
        tables=tuple(tables(answer.quantity, totals, rows)),
        notes=tuple(_notes(answer)),
        keys=("component", "formula", "value", "share", "numbers", "heading", "layers"),
        headline=_headline(answer, totals, rows),
    )


def _headline(answer: Answer, totals: Record, rows: Sequence[Record]) -> str:
    """`8,589,934,592 elements = 2*batch_size*…`; shares of components if the formula is too long."""
    figure = f"{totals['value']:,} {answer.quantity.title}"
    if len(totals["formula"]) <= LONGEST_FORMULA:
        return f"{figure} = {totals['formula']}"
    largest = sorted(rows, key=lambda row: -row["value"])[:MOST_NAMED]
    shares = [f"{row['share']:.1%} {row['component']}" for row in largest]
    return f"{figure}: {', '.join(shares)}"


def _inputs(answer: Answer) -> Record:
    """The question, by JSON's keys."""
    question, counted = answer.question, answer.counted
    inputs: Record = {"quantity": question.quantity}
    if question.quantity == "flops":
        inputs |= {**counted.inputs(), "mask": question.mask}
    elif question.quantity == "kvcache":
        inputs |= {"context": counted.new, "batch_size": counted.batch_size}
    options = {"symbols": question.symbols, "at": question.at, "path": question.path, "part": question.part}
    return inputs | {
        name: value if isinstance(value, str) else list(value) for name, value in options.items() if value
    }


def _row(answer: Answer, part: Component) -> Record:
    """A component as a record: its formula, numbers, value and layers; its steps with --steps."""
    row: Record = {
        "component": part.name,
        **_formula(answer, part.formula),
        "share": 0.0,
        "heading": part.heading,
        "layers": list(shortened(part.layers)),
    }
    if answer.question.steps:
        layers = sum(figure(answer.symbols.value(times)) for times in part.bodies)
        # the textbook's formulas are of language models, not of towers
        of_model = answer.question.part is None
        first = textbook_line(answer.model, answer.question, part, layers) if of_model else None
        row["steps"] = steps_of(part, answer.symbols, first)
    return row


def _formula(answer: Answer, expression: Any) -> Record:
    """An expression: as text, with numbers, its value, and with --latex in LaTeX."""
    values, text = names(answer.symbols), str(expression)
    record: Record = {"formula": text, "numbers": numbered(text, values)}
    if answer.question.latex:
        record["latex"] = latex(expression, values)
        record["latex_numbers"] = latex(expression, values, numbers=True)
    return {**record, "value": figure(answer.symbols.value(expression))}


def _totals(answer: Answer, meaning: Meaning) -> Record:
    """The total, the second figure, the symbols; with --at growth, with --approx approximations."""
    model, question, second = answer.model, answer.question, answer.quantity.second
    used = answer.total.free_symbols | answer.second.free_symbols
    symbols = legend(model, answer.symbols, used, meaning)
    totals: Record = {
        "quantity": answer.quantity.title,
        **_formula(answer, answer.total),
        "symbols": {record["symbol"]: record["value"] for record in symbols},
        **{f"{second}_{key}": value for key, value in _formula(answer, answer.second).items()},
        "legend": symbols,
    }
    if question.at:
        sizes = question.sizes(model)
        # two of --at may name the same symbol
        growing = dict.fromkeys(name for text in question.at for name in named(model, sizes, text))
        totals["growth"] = [growth_of(answer.total, name, answer.symbols) for name in growing]
    if question.approx:
        totals["approximations"] = approximations(model, question, answer.counted)
    return totals


def _convention(question: Question) -> Iterator[str]:
    yield CONVENTION
    if question.approx or question.steps:
        yield LETTERS
    if question.approx:
        yield "N are the active parameters without embeddings and head, P all active ones."
    if question.approx and question.quantity != "params":
        yield "A number for L counts layers with softmax attention, one for S or T is their window."


def _notes(answer: Answer) -> Iterator[str]:
    question, counted = answer.question, answer.counted
    if question.part is not None:
        yield "The projector is that of the tower: what joins it to the language model."
        return
    if question.quantity != "params":
        yield from context_notes(answer.model, counted.new + counted.past)
    if question.quantity == "flops":
        yield from source_notes(answer.model, question.request.source_len)
        yield from form_notes([answer.model], question.request.forms)
        yield from counted.expectations
    if question.quantity == "kvcache" and not answer.model.caches:
        yield "An encoder generates nothing, and caches nothing."
    if question.quantity == "params" and answer.model.mtp_depth:
        yield "Multi-token prediction runs in training alone and is not in the formula."
