"""The report of `archcli predict`: how long, how sure that is, what limits it, and what it costs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from archcli.errors import ArchError
from archcli.graph import Row
from archcli.measure.memory.answers.checks import check_question
from archcli.measure.memory.answers.wording import bytes_in_words
from archcli.measure.notes import context_notes, source_notes
from archcli.measure.passes import count_pass
from archcli.measure.predict.answers import tables
from archcli.measure.predict.answers.checks import check_prediction
from archcli.measure.predict.answers.limits import (
    LAUNCHING,
    OF_CACHE,
    OF_STATES,
    limits,
    of_states,
    sentence,
)
from archcli.measure.predict.answers.question import Curve, FitTime, PredictAnswer, PredictQuestion
from archcli.measure.predict.answers.totals import totals_of
from archcli.measure.predict.answers.wording import sequences, title
from archcli.measure.predict.constants import SMALL_BYTES
from archcli.measure.predict.prediction import told
from archcli.measure.predict.serving.engines import ENGINES
from archcli.measure.report import Report, Table
from archcli.modules.request import Request
from archcli.recording.classes import TimeClass

FAR = 2**30
"""Tokens behind which every window is full."""
if TYPE_CHECKING:
    from archcli.measure.predict.answers.best import FastestPlan

Record = dict[str, Any]
FLOOR = {
    "datasheet": "floor: the datasheet's peaks and bandwidth, nothing else",
    "measured": "floor: the peaks and bandwidths that `archcli profile` measured, nothing else",
}
EXPECTED = (
    ". expected: with the share of them that kernels reached where they were measured. "
    "low to high: 80% of what was held out of that fit lay between."
)
FLOOR_ALONE = "; no constants of this device are known."
GROWN = (
    "The pass copies the cache into a longer one, as the model that archcli builds does; "
    "--phase serve and --engine write into one that is there."
)
SCANS = (
    "Scans run as in the model that archcli builds, in many small kernels; one that is fused, such as "
    "mamba-ssm's or flash-linear-attention's, launches far fewer."
)
KEYS = ("path", "stage", "kernel", "class", "times", "flops", "bytes", "time_s", "floor_s", "bound_by")


def predict(
    question: PredictQuestion, *, curve: Curve | None = None, what_fits: FitTime | None = None
) -> Report:
    """The report of `archcli predict`. Raises ArchError for a question that has no answer.

    `curve` adds points that differ in one size; `what_fits` "time" asks for the fastest plan that fits.
    """
    check_prediction(question)
    choice = None
    if what_fits is not None:
        if question.asked.compiled:
            raise ArchError("plans are compared by passes that are not compiled", "leave one of them out")
        from archcli.measure.predict.answers.best import fastest  # asked for by name

        question, choice = fastest(question)
    check_question(question.memory())
    answer = question.answer()
    decoded = decoded_rows(question) if question.caches else ()
    totals = _totals(question, answer, decoded)
    if curve is not None:
        from archcli.measure.predict.answers.curve import curve_points  # asked for by name

        totals["curve"] = curve_points(question, curve)
    if choice is not None:
        totals["fit"] = choice.record
    rows = [row.record() for row in answer.prediction.rows]
    return Report(
        command="predict",
        model={"name": question.model.name, "source": question.model.source},
        inputs=_inputs(question),
        convention=_convention(question, totals),
        totals=totals,
        rows=rows,
        tables=tuple(_tables(question, totals, rows, curve)),
        notes=tuple(_notes(question, totals, choice, curve, _kept(answer, decoded))),
        keys=KEYS,
        title=title(question),
        not_modelled=tuple(_not_modelled(question, answer)),
    )


def _convention(question: PredictQuestion, totals: Record) -> str:
    floor = FLOOR["measured" if question.timing.clock.rates.measured_by else "datasheet"]
    return floor + (FLOOR_ALONE if totals["time_s"]["expected"] is None else EXPECTED)


def _totals(question: PredictQuestion, answer: PredictAnswer, decoded: tuple[Row, ...]) -> Record:
    """Times and rates, whether it fits, what takes the time, and where decoding breaks even."""
    totals = totals_of(question, answer)
    total, spent = told(answer.prediction.time), limits(answer.prediction, of_states(decoded))
    memory, needed = question.device.memory, question.memory().answer().needed_bytes
    totals |= {
        "fits": needed <= memory.memory_bytes,
        "needed_bytes": needed,
        "memory_bytes": memory.memory_bytes,
        "limits": [limit.record(total) for limit in spent],
        "sentence": sentence(question.settings.phase, sequences(question), spent, totals),
    }
    if question.phase in {"decode", "serve"}:
        totals["break_even"] = _break_even(question, decoded)
    return totals


def _kind(totals: Record) -> str:
    """The figure that stands for all where one does: the expected one, or the floor."""
    return "floor" if totals["time_s"]["expected"] is None else "expected"


def decoded_rows(question: PredictQuestion) -> tuple[Row, ...]:
    """The rows of one rank that decodes far behind, where every window is full."""
    of_replica = -(-int(question.settings.batch_size) // question.plan.dp)
    share = question.plan.share(question.model)
    return count_pass(share, Request("decode", of_replica, 1, FAR)).rows


def _break_even(question: PredictQuestion, rows: tuple[Row, ...]) -> Record:
    from archcli.measure.predict.serving.break_even import break_even  # of decoding alone

    of_replica = -(-int(question.settings.batch_size) // question.plan.dp)
    cached = stored = 1.0 if question.asked.dtype == "fp8" else float(question.settings.width)
    if question.model.quantization is not None:
        from archcli.measure.predict.rank.stored import mean_width  # of quantized weights alone

        stored = mean_width(question.plan.share(question.model), rows, question.settings.dtype)
    points = break_even(rows, of_replica, (stored, cached), question.timing, question.asked.dtype)
    batch = {"floor": points.floor_batch, "expected": points.batch}
    return {
        "batch_size": {name: size and size * question.plan.dp for name, size in batch.items()},
        "context": points.context,
    }


def _inputs(question: PredictQuestion) -> Record:
    settings, asked, train = question.settings, question.asked, question.phase == "train"
    names = ("phase", "batch_size", "attention", "backend", *(("recompute", "grad_accum") if train else ()))
    of_phase: Record = {} if train else {"engine": asked.engine, "kv_read": asked.kv_read}
    if question.phase == "serve":
        of_phase["new"] = asked.new
    if question.phase == "prefill":
        of_phase["past"] = settings.past
    if train and asked.tokens is not None:
        of_phase["tokens"] = asked.tokens
    if asked.compiled:
        of_phase["compiled"] = True
    return {
        **{name: getattr(settings, name) for name in names},
        "seq_len": settings.tokens(question.model),
        "source_len": question.model.source_length(settings.source_len),
        "dtype": asked.dtype,
        **of_phase,
        "plan": question.plan.inputs(),
        "device": question.device.name,
        "n_devices": question.plan.devices,
        **({} if asked.price_per_hour is None else {"price_per_hour": asked.price_per_hour}),
    }


def _tables(
    question: PredictQuestion, totals: Record, rows: list[Record], curve: Curve | None
) -> Iterator[Table]:
    kind = _kind(totals)
    yield tables.figures_table(totals["sentence"], question, totals)
    yield tables.limit_table(totals["limits"], kind)
    yield tables.row_table(rows, totals["time_s"][kind], kind)
    if curve is not None:
        from archcli.measure.predict.answers.curve import curve_table  # asked for by name

        yield curve_table(curve, totals["curve"], kind)


def _notes(
    question: PredictQuestion,
    totals: Record,
    choice: FastestPlan | None,
    curve: Curve | None,
    kept: set[str],
) -> Iterator[str]:
    device, settings, model = question.device.memory, question.settings, question.model
    yield from context_notes(model, settings.past + settings.tokens(model) + question.new_tokens)
    yield from source_notes(model, settings.source_len)
    if not totals["fits"]:
        needed, there = (bytes_in_words(totals[name]) for name in ("needed_bytes", "memory_bytes"))
        yield (
            f"It does not fit into {device.name}: {needed} of {there} a device; the times are as if it did. "
            "`archcli memory --fit devices` says how many would do."
        )
    if question.plan.devices < device.n_devices:
        yield f"This plan uses {question.plan.devices:,} of {device.n_devices:,} devices."
    if curve == "devices" and len(totals["curve"]) == 1:
        yield f"A curve of devices goes up to those of --device: 8x{device.name} has four points."
    if choice is not None:
        yield from choice.sentences
    yield from _of_decoding(question, totals)
    yield from _of_states(question, totals, kept)
    if totals["time_s"]["expected"] is not None:
        of = totals["device"]
        yield f"Constants: {of['source']}; mean error of what was held out {100 * of['held_out_error']:.1f}%."


def _kept(answer: PredictAnswer, decoded: Iterable[Row]) -> set[str]:
    """What passes keep from token to token; a training step keeps no cache."""
    is_scanned = any(row.op_class == TimeClass.RECURRENCE for row in answer.prediction.rows)
    return {*of_states(decoded).values(), *([OF_STATES] if is_scanned else ())}


def _of_states(question: PredictQuestion, totals: Record, kept: set[str]) -> Iterator[str]:
    """What the kernels of caches and of recurrent states are those of."""
    has_past = question.phase == "decode" or question.settings.past
    if has_past and not question.is_served and OF_CACHE in kept:
        yield GROWN
    if totals["limits"][0]["what"] == LAUNCHING and OF_STATES in kept:
        yield SCANS


def _of_decoding(question: PredictQuestion, totals: Record) -> Iterator[str]:
    points = totals.get("break_even")
    if not points:
        return
    batch = points["batch_size"]["expected"] or points["batch_size"]["floor"]
    if batch and batch >= 1:
        kind = "expected" if points["batch_size"]["expected"] else "floor"
        many = f"{batch:,.0f} sequence{'' if round(batch) == 1 else 's'}"
        yield f"From {many} on, products compute longer than weights are read ({kind})."
    if points["context"]:
        n = question.settings.batch_size
        of_each = f" in each of {n:,} sequences" if n > 1 else ""
        yield f"From {points['context']:,} tokens{of_each} on, the cache is larger than the weights."


def _not_modelled(question: PredictQuestion, answer: PredictAnswer) -> Iterator[str]:
    yield from answer.prediction.not_modelled
    exposed = answer.prediction.communication if answer.prediction.origin else ()
    sent = [part.timed for part in exposed]
    if any(part.collective.bytes < SMALL_BYTES * part.collective.times for part in sent):
        yield "What decides how long a collective below 1 MB takes: times scatter, as the range says."
    if any(part.link == "network" for part in sent):
        yield "What the network between machines reaches: its rate on paper counts."
    if any(row.op_class == TimeClass.ROUTING for row in answer.prediction.rows):
        yield "Routing: tokens are spread evenly over the experts."
    if question.phase == "train":
        return
    if question.model.quantization is not None:
        yield "Quantized weights: unpacking them. Products read them as stored and compute in the dtype."
    if question.asked.engine != "none":
        engine = ENGINES[question.asked.engine]
        yield f"{engine.label} beside its kernels is one factor, {engine.speed:g}: {engine.source}."
    if question.phase == "serve":
        yield "Requests that come and go: all sequences begin and end together."
