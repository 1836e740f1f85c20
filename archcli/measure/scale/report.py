"""The report of `archcli scale`: a sentence, the shape beside its base, alternatives, the training."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from archcli.measure.memory.answers.tables import device_in_words
from archcli.measure.notes import context_notes
from archcli.measure.predict.answers.limits import three_figures
from archcli.measure.report import Report, Table
from archcli.measure.scale import tables
from archcli.measure.scale.laws import LAWS, law_rows, training_totals
from archcli.measure.scale.search import INFO
from archcli.measure.scale.solve import ScaleAnswer, ScaleProblem

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
    if answer.step is None:
        return
    devices = device_in_words(answer.step.question.device.memory)
    yield f"{_days(totals['days'])} on {devices}{'' if answer.step.fits else ', into which it does not fit'}"


def _days(days: Mapping[str, float | None]) -> str:
    """As expected with the range, or at least those of the device's peaks."""
    known = {name: three_figures(value) for name, value in days.items() if value is not None}
    if "expected" not in known:
        return f"at least {known['floor']} days"
    return f"{known['expected']} days ({known['low']} to {known['high']})"


def _short(number: int) -> str:
    size, unit = next((pair for pair in UNITS if number >= pair[0]), (1, ""))
    return f"{three_figures(number / size)}{unit}"


Record = dict[str, Any]
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
    totals, rows = _totals(problem, answer), tables.size_rows(answer)
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
        not_modelled=answer.step.prediction.not_modelled if answer.step else (),
    )


def _inputs(problem: ScaleProblem, answer: ScaleAnswer) -> Record:
    settings = problem.settings
    goals = {"params": settings.params, "compute": settings.compute, "hours": settings.hours}
    inputs: Record = {name: value for name, value in goals.items() if value is not None}
    inputs |= {"law": settings.law, "seq_len": answer.cost.seq_len, "batch_tokens": settings.batch_tokens}
    if problem.timed is not None:
        devices = problem.timed.device.memory
        inputs |= {"device": devices.name, "n_devices": devices.n_devices}
    return {**inputs, **({"keep": list(settings.keep)} if settings.keep else {})}


def _totals(problem: ScaleProblem, answer: ScaleAnswer) -> Record:
    record = tables.shape_record(answer.best, answer.params)
    totals: Record = {"name": answer.best.model.name, "asked_params": answer.params, **record}
    totals |= training_totals(answer.cost, answer.tokens, problem.settings.batch_tokens)
    totals["days"] = None
    if answer.step is not None:
        totals |= answer.step.record(answer.tokens)
    # the N of the laws are the active parameters
    totals["laws"] = law_rows(answer.best.shape.active_params, totals["flops"])
    totals["alternatives"] = tables.alternative_rows(answer)
    return {**totals, "sentence": sentence(problem, answer, totals)}


def _tables(
    problem: ScaleProblem, answer: ScaleAnswer, totals: Record, rows: list[Record]
) -> Iterator[Table]:
    yield tables.size_table(totals["sentence"], answer, rows)
    yield tables.figure_table(problem.model, answer.best.model)
    yield tables.alternative_table(answer)
    yield tables.training_table(totals)
    if answer.step is not None:
        yield tables.days_table(totals)
    yield tables.law_table(totals["laws"], problem.settings.law)


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
        yield from _of_step(answer)


def _of_step(answer: ScaleAnswer) -> Iterator[str]:
    if answer.step is None:
        return
    settings, devices = answer.step.question.settings, answer.step.question.device.name
    how = f"-b {settings.batch_size} --grad-accum {settings.grad_accum}"
    again = "" if settings.recompute == "none" else f" --recompute {settings.recompute}"
    plan = f"{answer.step.question.plan.devices} x {devices} with ZeRO 3"
    yield f"Times are those of archcli predict for {plan}, {how}{again}."
    if not answer.step.prediction.seconds.is_calibrated:
        yield f"No measurements of {devices} are known: times are the limit of its peaks."
    if not answer.step.fits:
        yield f"It does not fit into {devices}; times are as if it did: `archcli memory --fit devices`."
