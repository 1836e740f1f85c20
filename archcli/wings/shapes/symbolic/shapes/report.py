"""The report of `archcli sweep`: the best candidates, and why the others are none."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

from archcli.arith import Number
from archcli.errors import as_int, quote
from archcli.measure.report import Column, Report, Table, Unit
from archcli.modules import Model
from archcli.units import binary_bytes, short_count, short_flops
from archcli.wings.shapes.symbolic.shapes.search import STRUCTURE, UNCOUNTED, Outcome, SweepQuestion
from archcli.wings.shapes.symbolic.shapes.terms import FigureTerm

CONVENTION = (
    "Every candidate is counted as one model is; those that `archcli params` would refuse are dropped. "
)
ORDERS = (
    "In the order of the grid.",
    "In the order of the objective; ties in that of the grid.",
    "Pareto front: no candidate is better in one objective without being worse in another.",
)

Record = dict[str, Any]


class SweepInputs(NamedTuple):
    """The options as they were written, and a note for each kind that was left out."""

    texts: Mapping[str, Any]
    refused: Sequence[str] = ()


def sweep_report(question: SweepQuestion, outcome: Outcome, inputs: SweepInputs, elapsed_s: float) -> Report:
    """The report of a search."""
    rows = list(best_rows(question, outcome))
    tally = outcome.tally
    model = question.structures[0].model
    totals = {
        "candidates": question.candidates,
        "matching": tally.matching,
        "elapsed_s": elapsed_s,
        "seen": tally.seen,
        "dropped": {reason: n for reason, n in tally.dropped.most_common() if n},
        "failed": dict(tally.failed),
        "broken": tally.broken,
        "front": outcome.best.size if len(question.objectives) > 1 else None,
    }
    order = ORDERS[min(len(question.objectives), 2)]
    return Report(
        command="sweep",
        model={"name": model.name, "source": model.source},
        inputs=inputs.texts,
        convention=CONVENTION + order,
        totals=totals,
        rows=rows,
        tables=(Table("candidates", tuple(_columns(question)), rows),) if rows else (),
        headline=f"{_headline(question, outcome, len(rows))}{_first_row(question, rows)}",
        notes=tuple(_notes(question, outcome, inputs)),
        usual={name: value for name, value in inputs.texts.items() if not value},
        keys=[column.key for column in _columns(question)],
    )


def _headline(question: SweepQuestion, outcome: Outcome, shown: int) -> str:
    """How many candidates match, of how many, and how many of those are shown."""
    title, most = (
        f"{outcome.tally.matching:,} of {outcome.tally.seen:,} candidates match",
        outcome.tally.matching,
    )
    if len(question.objectives) > 1:
        most = outcome.best.size
        title += f", {most:,} on the Pareto front"
    which = "best" if len(question.objectives) == 1 else "first"
    return f"{title}; the {which} {shown:,}" if shown < most else title


IN_WORDS: dict[Unit, Callable[[float], str]] = {
    "count": short_count,
    "bytes": binary_bytes,
    "flops": short_flops,
    "share": lambda share: f"{share:.1%}",
}
MOST_VALUES = 6


def _first_row(question: SweepQuestion, rows: Sequence[Record]) -> str:
    """`; best: d_ff 8,192, params 3.21B`, of a search without an objective `; first: …`."""
    if not rows:
        return ""
    columns = [column for column in _columns(question) if rows[0][column.key] is not None][:MOST_VALUES]
    values = [f"{column.title} {_in_words(rows[0][column.key], column.unit)}" for column in columns]
    return f"; {'best' if len(question.objectives) == 1 else 'first'}: {', '.join(values)}"


def _in_words(value: Any, unit: Unit) -> str:
    if isinstance(value, str):
        return value
    shown = IN_WORDS.get(unit)
    return f"{value:,.6g}" if shown is None else shown(value)


def best_rows(question: SweepQuestion, outcome: Outcome) -> Iterator[Record]:
    """The best candidates in their order: kinds, varied and tied fields, figures."""
    columns = outcome.best.rows()
    for i in range(len(columns[STRUCTURE]) if columns else 0):
        structure = question.structures[int(columns[STRUCTURE][i])]
        values = {str(key): _plain(array[i]) for key, array in columns.items() if key != STRUCTURE}
        sizes = {name: values[name] if name in structure.paths else None for name in question.names.varied}
        values |= sizes | dict(structure.kinds)
        yield {column.key: values.get(column.key) for column in _columns(question)}


def best_models(question: SweepQuestion, outcome: Outcome) -> Iterator[Model]:
    """The best candidates as models, in their order."""
    columns = outcome.best.rows()
    for i in range(len(columns[STRUCTURE]) if columns else 0):
        structure = question.structures[int(columns[STRUCTURE][i])]
        yield structure.sized({name: int(columns[name][i]) for name in structure.paths})


def _plain(value: Any) -> Any:
    """A number of an array as JSON has it, whole ones as ints; None for a figure that a model lacks."""
    number = value.item() if hasattr(value, "item") else value
    if isinstance(number, float):
        return None if math.isnan(number) else as_int(number)
    return number


def _columns(question: SweepQuestion) -> Iterator[Column]:
    """Kinds, then fields, then figures."""
    units: dict[str, Unit] = dict.fromkeys(question.structures[0].kinds, "text")
    units |= dict.fromkeys(question.names.varied, "number")
    units |= {str(term.key): term.figure.unit for terms in question.terms for term in terms}
    for expression, _ in question.objectives:
        if not expression.is_figure:  # which has its column already
            units.setdefault(expression.text, "number")
    return (Column(name, name, unit) for name, unit in units.items())


def _notes(question: SweepQuestion, outcome: Outcome, inputs: SweepInputs) -> Iterator[str]:
    tally = outcome.tally
    yield from inputs.refused
    terms = chain.from_iterable(question.terms)
    lengths = dict.fromkeys(text for term in terms for text in _length(question, term))
    if lengths and tally.matching:
        yield f"default lengths: {', '.join(lengths)}."
    if outcome.interrupted:
        yield f"interrupted after {tally.seen:,} of {question.candidates:,} candidates."
    reasons = [_reason(reason, n, tally.refusal) for reason, n in tally.dropped.most_common() if n]
    if reasons:
        dropped = sum(tally.dropped.values())
        yield f"no model: {dropped:,} of {tally.seen:,} candidates ({'; '.join(reasons)})."
    if tally.broken:
        yield f"dropped by --check: {tally.broken:,} candidates that meet all conditions."
    if tally.seen and not tally.matching:
        yield _emptiness(outcome)


def _length(question: SweepQuestion, term: FigureTerm) -> Iterator[str]:
    """`kv_bytes at context=8192`, if the settings leave the length out and all candidates share it."""
    lengths: set[tuple[str, Number]] = set()
    for structure in question.structures:
        varied = [name for name, paths in structure.paths.items() if "max_seq_len" in paths]
        # with another max_seq_len as well: where that gives another length, candidates share none
        for model in (structure.model, structure.sized(dict.fromkeys(varied, 1))):
            lengths.update(term.figure.length(model, term.settings).items())
    if len(lengths) == 1:
        [(name, tokens)] = lengths
        if not {name, "seq_len"} & {*term.settings}:
            yield f"{term.key} at {name}={tokens}"


def _reason(reason: str, number: int, refusal: str) -> str:
    """Why candidates are no model, and how many; those without a pass with the first one's error."""
    example = f", such as: {refusal}" if reason == UNCOUNTED and refusal else ""
    return f"{reason}: {number:,}{example}"


def _emptiness(outcome: Outcome) -> str:
    """Why no candidate is left, with the condition that most do not meet."""
    tally = outcome.tally
    worst = max(tally.failed, key=lambda text: tally.failed[text], default="")
    if not tally.counted:
        return "no candidate is a model."
    if worst and tally.failed[worst]:
        share = tally.failed[worst] / tally.counted
        return (
            f"no candidate is left: {quote(worst)} alone rules out {tally.failed[worst]:,} of "
            f"{tally.counted:,}, {100 * share:.4g}%."
        )
    return "no candidate is left: all break a design rule."
