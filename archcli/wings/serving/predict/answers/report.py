"""The report of `archcli predict`: time, its range, what limits it, and cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from archcli.errors import ArchError
from archcli.graph import Row
from archcli.measure.notes import context_notes, flex_notes, media_records, source_notes
from archcli.measure.passes import count_pass, shape_pass
from archcli.measure.report import LateTables, Report, Table
from archcli.measure.weights.stored_bytes import broken_notes
from archcli.modules.spec.request import Request
from archcli.wings.serving.memory.answers.question import check_question, idle_replicas
from archcli.wings.serving.memory.answers.verdict import verdict_of
from archcli.wings.serving.predict.answers import tables
from archcli.wings.serving.predict.answers.break_even import break_even
from archcli.wings.serving.predict.answers.costs import cost_notes
from archcli.wings.serving.predict.answers.limits import (
    HOSTED,
    LAUNCHING,
    OF_CACHE,
    OF_NETWORK,
    OF_STATES,
    UNMEASURED,
    headline,
    limits,
    misfit,
    misfit_hints,
    nodes_record,
    of_machines,
    of_states,
    sentence,
    title,
    why_limit,
)
from archcli.wings.serving.predict.answers.question import (
    Curve,
    FitTime,
    PredictAnswer,
    PredictQuestion,
    check_prediction,
)
from archcli.wings.serving.predict.answers.tables import FIGURES, kind_of_figures, totals_of
from archcli.wings.serving.predict.constants import SMALL_BYTES
from archcli.wings.serving.predict.left_out import OF_PEAKS
from archcli.wings.serving.predict.rank.routing import POWER
from archcli.wings.serving.predict.rank.stage_step import PASSES_OF_RING
from archcli.wings.serving.predict.times import GROUPED
from archcli.wings.serving.recorded.classes import TimeClass

FIGURES_TITLE = "times and rates"
FAR = 2**30
"""A context in which every window is full."""
if TYPE_CHECKING:
    from archcli.wings.serving.predict.answers.best import FastestPlan

Record = dict[str, Any]
LIMIT = {
    "datasheet": "limit: the datasheet's peaks and bandwidth alone",
    "measured": "limit: the peaks and bandwidths that `archcli profile` measured, alone",
}
EXPECTED = """. expected: with the share of them that measured kernels reach. \
low to high: a range that held 80% of the measurements not used for fitting."""
LIMIT_ALONE = "; no measurements of this device are known."
GROWN = (
    "Each pass copies the cache into a longer one, as the model that archcli builds does; "
    "with --phase serve or --engine it is written in place."
)
SCANS = (
    "Scans run as in the model that archcli builds, in many small kernels; a fused scan, such as "
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
    question, choice = (question, None) if what_fits is None else _fastest(question)
    check_question(question.memory())
    answer = question.answer()
    decoded = decoded_rows(question) if question.caches else ()
    totals = _totals(question, answer, decoded)
    if curve is not None:
        from archcli.wings.serving.predict.answers.curve import curve_points  # asked for by name

        totals["curve"] = curve_points(question, curve)
    if choice is not None:
        totals["fit"] = choice.record
    rows = [row.record() for row in answer.prediction.rows]
    return Report(
        command="predict",
        model={"name": question.model.name, "source": question.model.source},
        inputs=inputs_of(question),
        convention=_convention(question, totals),
        totals=totals,
        rows=rows,
        tables=LateTables(lambda: _tables(question, totals, rows, curve)),
        notes=tuple(_notes(question, totals, choice, curve, _kept(answer, decoded))),
        keys=KEYS,
        title=title(question),
        headline=headline(question, totals),
        not_modelled=tuple(_not_modelled(question, answer, totals)),
    )


def _fastest(question: PredictQuestion) -> tuple[PredictQuestion, FastestPlan]:
    """The question with the fastest plan that fits. Raises ArchError for one that ran, or is compiled."""
    if question.options.measured is not None:
        what = "--fit time chooses a plan, and --measured is of one that ran"
        raise ArchError(what, "state that plan, or leave --measured out")
    if question.options.compiled:
        raise ArchError("--fit time does not compare compiled passes", "leave --compile or --fit out")
    from archcli.wings.serving.predict.answers.best import fastest  # asked for by name

    return fastest(question)


def _convention(question: PredictQuestion, totals: Record) -> str:
    limit = LIMIT["measured" if question.timing.clock.rates.measured_by else "datasheet"]
    why = why_limit(question, totals)
    alone = LIMIT_ALONE if why == UNMEASURED else f"; {why}."
    return limit + (alone if kind_of_figures(totals) == "floor" else EXPECTED)


def _totals(question: PredictQuestion, answer: PredictAnswer, decoded: tuple[Row, ...]) -> Record:
    """Times and rates, whether it fits, what takes the time, and where decoding breaks even."""
    totals = totals_of(question, answer)
    if question.unknown_link and totals["time_s"]["expected"] is None:
        totals["not_stated"] = question.unknown_link
    total, spent = answer.prediction.seconds.expected, limits(answer.prediction, of_states(decoded))
    memory_question, memory = question.memory(), question.device.memory
    in_memory = memory_question.answer()
    totals |= {
        "fits": in_memory.fits(memory),
        "verdict": verdict_of(memory_question, in_memory),
        "needed_bytes": in_memory.needed_bytes,
        **memory_question.offload_totals(in_memory),
        "memory_bytes": in_memory.device_of(memory).memory_bytes,
        "limits": [limit.record(total) for limit in spent],
    }
    if question.settings.media and question.model.towers:
        totals |= _of_media(question, answer)
    totals["change"] = None
    if not totals["fits"] and question.phase != "train":
        from archcli.wings.serving.memory.answers import changes  # of what does not fit alone

        totals["change"] = changes.smaller_cache_or_format(memory_question)
        totals["fitting_plan"] = changes.fitting_plan(memory_question)
    answer_sentence = sentence(question, spent, totals)
    totals["sentence"] = " ".join([*misfit(question, totals), answer_sentence])
    if question.options.measured is not None:
        from archcli.wings.serving.predict.answers.measured import measured_totals  # asked for by name

        totals |= measured_totals(question, answer, totals, of_states(decoded))
    # with a part in RAM, neither the device's peak nor its bandwidth decides
    of_one = question.settings.offload is None and not memory.unlike and question.draft is None
    if question.phase in {"decode", "serve"} and of_one:
        totals["break_even"] = _break_even(question, answer, decoded)
    return totals


def _of_media(question: PredictQuestion, answer: PredictAnswer) -> Record:
    """What media become, and the seconds of the kernels of each part."""
    from archcli.wings.serving.predict.rank.tower_times import seconds_by_part  # of towers alone

    model, settings = question.model, question.settings
    return {
        "media": media_records(model, settings.media),
        "prompt_tokens": int(settings.prompt_tokens(model)),
        "by_part": seconds_by_part(model, answer.prediction.rows),
    }


def decoded_rows(question: PredictQuestion) -> tuple[Row, ...]:
    """The rows of one rank that decodes after so many tokens that every window is full."""
    share, batch_size = (
        question.plan.share(question.model),
        question.plan.of_replica(question.settings).batch_size,
    )
    return count_pass(share, Request("decode", batch_size, 1, FAR)).rows


def _break_even(question: PredictQuestion, answer: PredictAnswer, rows: tuple[Row, ...]) -> Record:
    is_known, timing = answer.prediction.seconds.is_calibrated, question.timing
    timing = timing if is_known else timing.at_limit(drops_runs=True)
    of_replica = int(question.plan.of_replica(question.settings).batch_size)
    stored = float(question.settings.width)
    cached = question.cache.cached_width(int(question.settings.width))
    if question.model.quantization is not None:
        from archcli.wings.serving.predict.rank.stored import mean_width  # of quantized weights alone

        stored = mean_width(question.plan.share(question.model), rows, question.settings.dtype)
    points = break_even(rows, of_replica, (stored, cached), timing, question.multiplied)
    batch, plan = {"floor": points.floor_batch, "expected": points.batch}, question.plan
    at_once = plan.batches * plan.batches_at_once(question.settings)
    return {
        "batch_size": {name: size and size * at_once for name, size in batch.items()},
        "context": points.context,
    }


def inputs_of(question: PredictQuestion) -> Record:
    """The options of the question, by JSON's keys."""
    settings, predicted, train = question.settings, question.options, question.phase == "train"
    of_training = ("recompute", "grad_accum", "optimizer")
    names = ("phase", "batch_size", "attention", "backend", *(of_training if train else ()))
    of_phase: Record = {} if train else {name: getattr(predicted, name) for name in ("engine", "kv_read")}
    if question.caches:
        of_phase["kv_dtype"] = question.cache.cache_dtype or settings.dtype
        of_phase["chunk"] = predicted.chunk
        of_phase["utilization"] = question.device.memory.utilization
    if settings.engine and settings.engine.adapters:
        of_phase["adapters"] = settings.engine.adapters
    if question.phase == "serve":
        of_phase["new"] = predicted.new
    if question.phase == "prefill":
        of_phase["past"] = settings.past
    if train and predicted.tokens is not None:
        of_phase["tokens"] = predicted.tokens
    if train:
        of_phase["gradients"] = settings.gradients or settings.dtype
    if predicted.compiled:
        of_phase["compiled"] = True
    if predicted.measured is not None:
        of_phase["measured"] = predicted.measured
    if question.draft is not None:
        of_phase |= question.draft.inputs()
    return {
        **{name: getattr(settings, name) for name in names},
        "seq_len": settings.tokens(question.model),
        "source_len": question.model.source_length(settings.source(question.model)),
        "dtype": question.model.stored_as or settings.dtype,
        **of_phase,
        "plan": question.plan.inputs(),
        **({} if settings.offload is None else {"offload": settings.offload.inputs()}),
        "device": question.device.name,
        "n_devices": question.plan.devices,
        **nodes_record(question),
        **({} if predicted.price_per_hour is None else {"price_per_hour": predicted.price_per_hour}),
        **({"as_published": True} if question.model.is_as_published else {}),
    }


def _tables(
    question: PredictQuestion, totals: Record, rows: list[Record], curve: Curve | None
) -> Iterator[Table]:
    kind = kind_of_figures(totals)
    # below a measured time, which is the headline, stands what was expected
    yield tables.figures_table(
        totals["sentence"] if "explained" in totals else FIGURES_TITLE, question, totals
    )
    yield tables.limit_table(totals["limits"], kind)
    yield tables.row_table(rows, totals["time_s"][kind], kind)
    if curve is not None:
        from archcli.wings.serving.predict.answers.curve import curve_table  # asked for by name

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
    if settings.execution().flex:
        yield from flex_notes(shape_pass(model, settings.request(model)).rows)
    if question.plan.devices < device.n_devices:
        yield f"This plan uses {question.plan.devices:,} of {device.n_devices:,} devices."
    yield from idle_replicas(settings, question.plan)
    if curve == "devices" and len(totals["curve"]) == 1:
        yield f"A curve of devices goes up to those of --device: 8x{device.name} has four points."
    if choice is not None:
        yield from choice.sentences
    yield from _of_weights(question)
    yield from _of_decoding(question, totals)
    yield from _of_states(question, totals, kept)
    if totals["time_s"]["expected"] is not None:
        of, error = totals["device"], 100 * totals["device"]["held_out_error"]
        yield f"Constants: {of['source']}; mean error {error:.1f}% on measurements not used for fitting."
    if "measured" in totals:
        from archcli.wings.serving.predict.answers.measured import mfu_notes  # asked for by name

        yield from mfu_notes(question, totals["measured"]["mfu"])
    yield from _of_engine(question, totals)
    if "offload" in totals:
        from archcli.wings.serving.memory.answers.offloading import (  # of an offload alone
            offload_notes,
            rate_notes,
        )

        yield from offload_notes(question.memory(), totals["offload"])
        yield from rate_notes(question.settings)
    yield from cost_notes(question, totals)
    yield from misfit_hints(question, totals)


def _of_engine(question: PredictQuestion, totals: Record) -> Iterator[str]:
    """Notes on an engine: whose kernels are timed, and how a live server takes in sequences."""
    engine, kernels = question.engine, question.engine_kernels
    if engine.live is None or totals["time_s"]["expected"] is None:
        return
    name = question.device.name
    if kernels is None:
        yield f"Kernels of {question.engine_title}: none was measured on a device of this generation."
    elif kernels.lender or kernels.products_of:
        lenders = " and ".join(dict.fromkeys(filter(None, (kernels.lender, kernels.products_of))))
        yield f"{name} has constants of {lenders}, the nearest of its generation; the range is wider by 15%."
        links_of = kernels.links_of() if question.plan.devices > 1 else ""
        if links_of:
            yield f"All-reduces have constants of {links_of}, whose link is of the same kind."
    if question.phase == "serve":
        yield (
            "A live server takes in a sequence when another ends: tokens wait for prefills of others, too; "
            "the ranges held 80% of servers of their kind whose device was not used for fitting."
        )


def _kept(answer: PredictAnswer, decoded: Iterable[Row]) -> set[str]:
    """What passes keep from token to token: a cache, recurrent states; training keeps no cache."""
    is_scanned = any(row.op_class == TimeClass.RECURRENCE for row in answer.prediction.rows)
    return {*of_states(decoded).values(), *([OF_STATES] if is_scanned else ())}


def _of_states(question: PredictQuestion, totals: Record, kept: set[str]) -> Iterator[str]:
    """Notes on kernels that copy a growing cache, and on kernels of unfused scans."""
    has_past = question.phase == "decode" or question.settings.past
    if has_past and not question.is_served and OF_CACHE in kept:
        yield GROWN
    if totals["limits"][0]["what"] in {LAUNCHING, HOSTED} and OF_STATES in kept:
        yield SCANS


def _of_weights(question: PredictQuestion) -> Iterator[str]:
    """How packed matrices are multiplied."""
    yield from broken_notes(question.model)
    stored, device, dtype = question.model.quantization, question.device.name, question.settings.dtype
    if stored is None or question.phase == "train":
        return
    if question.native:
        yield f"Packed matrices are multiplied in {question.native}, as {device} can; all else is in {dtype}."
        return
    lacks = f": {device} states no peak of {stored.product.needed}" if stored.product is not None else ""
    yield f"Packed matrices are read as stored and unpacked to {dtype}, in which they are multiplied{lacks}."


def _of_decoding(question: PredictQuestion, totals: Record) -> Iterator[str]:
    points = totals.get("break_even")
    if not points:
        return
    batch = points["batch_size"]["expected"] or points["batch_size"]["floor"]
    if batch and batch >= 1:
        kind = "expected" if points["batch_size"]["expected"] else "floor"
        yield f"From batch size {batch:,.0f} up, matrix products are compute-bound ({FIGURES[kind]})."
    if points["context"]:
        n = question.settings.batch_size
        of_each = f" in each of {n:,} sequences" if n > 1 else ""
        yield f"From {points['context']:,} tokens{of_each} up, the cache is larger than the weights."


def _not_modelled(question: PredictQuestion, answer: PredictAnswer, totals: Record) -> Iterator[str]:
    # of a device with constants the limit alone may be known for another reason
    is_measured = why_limit(question, totals) != UNMEASURED
    yield from (what for what in answer.prediction.not_modelled if not (is_measured and what == OF_PEAKS))
    yield from of_machines(question)
    # without constants there is no range that could be wide
    exposed = answer.prediction.communication if answer.prediction.origin else ()
    sent = [part.timed for part in exposed]
    if question.engine_kernels is not None:
        sent = [part for part in sent if part.collective.name not in PASSES_OF_RING]
    if any(part.collective.bytes < SMALL_BYTES * part.collective.times for part in sent):
        yield "What a collective below 1 MB depends on: measured times scatter, so the range is wide."
    if any(part.link == "network" for part in sent):
        yield OF_NETWORK
    if any(row.op_class == TimeClass.ROUTING or row.kernel == GROUPED for row in answer.prediction.rows):
        yield f"The routing: loads of experts fall as rank^-{POWER}; at the limit all tokens choose the same."
    if question.phase == "train":
        return
    unpacks = not question.native and question.device.timing.whole_runs is None
    if question.model.quantization is not None and unpacks:
        yield "Unpacking of quantized weights: products read them as stored and compute in the dtype."
    engine = question.engine
    if question.options.engine != "none":
        factor = f"a factor of {engine.speed:g} ({engine.source})"
        yield f"What {question.engine_title} does beside its kernels, but for {factor}."
    if question.phase == "serve" and engine.live is None:
        yield "Requests that come and go: all sequences start and end together."
