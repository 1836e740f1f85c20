"""The report of one model on one device: whether it fits, in which format, and how fast it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from archcli.errors import ArchError
from archcli.measure.notes import context_notes
from archcli.measure.report import Column, Report, Table
from archcli.units import binary_bytes, decimals_of, three_figures
from archcli.wings.serving.api.engine import version_notes
from archcli.wings.serving.api.fitting.choice import Choice, Record
from archcli.wings.serving.api.fitting.fit_question import FitQuestion
from archcli.wings.serving.api.fitting.formats import Formats
from archcli.wings.serving.api.fitting.forms import has_bits, is_narrow, is_published
from archcli.wings.serving.memory.answers.changes import SMALLER_CACHES
from archcli.wings.serving.memory.answers.question import MemoryQuestion, check_question
from archcli.wings.serving.memory.answers.tables import device_in_words, memory_in_words, plan_in_words, title
from archcli.wings.serving.memory.answers.verdict import margin_in_words, tight_note
from archcli.wings.serving.predict.answers.limits import rate_in_words
from archcli.wings.serving.predict.answers.tables import to_four

CONVENTION = (
    "Memory: `archcli memory --phase serve` with the longest context that fits. Speed: `archcli predict`, "
    "decoding; a range that held 80% of the measurements not used for fitting."
)
KEYS = ("format", "context", "tokens_per_s", "peak_bytes")
OF_A_CHOICE = (
    Column("format", "format"),
    Column("context", "context", "number"),
    Column("expected", "tokens/s", "number"),
    Column("range", "range", minor=True),
    Column("peak_bytes", "memory", "bytes"),
)
"""Columns of a format and its figures."""
EVERY = "every format"
Finish = Callable[[Report, MemoryQuestion | None], Report]
MOST_DEVICES = 8
"""The most devices that are suggested: a usual server."""


def fit_model(fit: FitQuestion, *, verbose: bool = False, finish: Finish = lambda it, _: it) -> Report:
    """The verdict on one model and one device. Raises ArchError for a question without an answer.

    `finish` gets the report, and the question at the context of the headline; None where nothing fits.
    """
    formats = Formats(fit)
    check_question(formats.first.question)
    best = formats.best()
    report = _report(formats, best, verbose=verbose)
    return finish(report, None if best is None else best.at(fit.context or best.context or 0))


def _report(formats: Formats, best: Choice | None, *, verbose: bool) -> Report:
    fit = formats.fit
    shown = _nearest(formats) if best is None else best
    better, smaller = (None, None) if best is None else (formats.better(best), formats.smaller(best))
    rival, change = best and formats.rival(best), _change(formats, best)
    totals = {
        "fits": best is not None,
        "verdict": "no" if best is None else best.verdict,
        "format": best and best.format,
        "engine": shown.engine.name,
        "context": best and best.context,
        "sure_context": best and best.sure_context,
        "tokens_per_s": shown.tokens_per_s,
        "peak_bytes": shown.peak_bytes,
        "memory_bytes": shown.device.memory_bytes,
        "better": better and better.record(),
        "smaller": smaller and smaller.record(),
        "other_engine": rival and {**rival.record(), "engine": rival.engine.name},
        "change": change,
        **_offload(shown),
        "speed_at": shown.speed_at,
        "speed_source": shown.speed["origin"].source if shown.speed.get("origin") else None,
        "plan": shown.question.plan.inputs(),
        "devices": shown.device.n_devices,
    }
    rows = [choice.record() for choice in (better, best, smaller) if choice is not None]
    return Report(
        command="fit",
        model={},
        inputs=_inputs(fit, shown),
        convention="" if best is None else CONVENTION,
        totals=totals,
        rows=rows,
        tables=tuple(_tables(better, best, smaller, rival, shown, formats, verbose=verbose)),
        notes=tuple(_notes(formats, best, shown, change)),
        keys=KEYS,
        title=title(shown.at(shown.context or fit.wanted[-1])),
        headline=_headline(fit, best, formats),
    )


def _inputs(fit: FitQuestion, shown: Choice) -> Record:
    """The options, with the values chosen for those left out."""
    settings, device = shown.question.settings, shown.device
    return {
        "device": device.name,
        "n_devices": device.n_devices,
        "context": fit.context,
        "batch_size": settings.batch_size,
        "dtype": shown.format,
        "engine": shown.engine.name,
        "kv_dtype": settings.cache_dtype or settings.dtype,
        "plan": shown.question.plan.inputs(),
        "utilization": device.utilization,
        "min_speed": fit.min_speed,
        "min_bits": fit.min_bits,
        **({"adapters": shown.engine.adapters} if shown.engine.adapters else {}),
    }


def _offload(choice: Choice) -> Record:
    """The offload at the longest context, by JSON's key."""
    question = choice.at(choice.context or choice.fit.wanted[-1])
    return question.offload_totals(question.answer())


def _headline(fit: FitQuestion, best: Choice | None, formats: Formats) -> str:
    """The verdict: `fits 2 x rtx-3090 as q4_k_m with 14,080 tokens of context; 16.8 tokens/s (14 to 20)`.

    A tight one begins with `is tight on`.
    """
    if best is None:
        return _misfit(fit, formats)
    tokens = fit.context or best.context or 0
    longer = best.context is not None and fit.context is not None and best.context > fit.context
    up_to = f" (up to {best.context:,})" if longer else ""
    where, offload = device_in_words(best.device), _offload(best).get("offload")
    where += f" ({memory_in_words(best.device)})" if best.device.free_bytes is not None else ""
    in_words = best.question.settings.offload.in_words if best.question.settings.offload else ""
    in_ram = f", {in_words} ({offload['options']})" if offload else ""
    verb = "is tight on" if best.verdict == "tight" else "fits"
    return (
        f"{verb} {where} as {best.format} with {tokens:,} tokens of context{up_to}{in_ram}; "
        f"{rate_in_words(best.tokens_per_s)}{_of_each(best)}"
    )


def _of_each(choice: Choice) -> str:
    """` of all, 35.4 each`: the rate of one of several sequences; empty for a single one."""
    n, expected = choice.question.settings.batch_size, choice.tokens_per_s["expected"]
    if n == 1:
        return ""
    return " of all" + ("" if expected is None else f", {three_figures(expected / n)} each")


def _nearest(formats: Formats) -> Choice:
    """The format that comes nearest to fitting: that of --dtype, the fastest, or the smallest."""
    fit = formats.fit
    if fit.dtype is not None:
        return formats.first
    fitting = () if fit.min_speed is None else formats.fitting()
    return max(fitting, key=lambda choice: choice.rate, default=None) or formats.least()


def _misfit(fit: FitQuestion, formats: Formats) -> str:
    least = _nearest(formats)
    if fit.ram_bytes and fit.dtype is None:
        ram = binary_bytes(fit.ram_bytes)
        return f"does not fit {device_in_words(least.device)} and {ram} of RAM in any format"
    tokens = fit.wanted[-1]
    if fit.min_speed is not None and least.holds(tokens):
        rate = rate_in_words(least.tokens_per_s)
        return f"too slow on {device_in_words(least.device)}: {rate} as {least.format}, not {fit.min_speed:g}"
    answer = least.at(tokens).answer()
    needed, there = (
        binary_bytes(answer.needed_bytes),
        binary_bytes(answer.device_of(least.device).memory_bytes),
    )
    of_each = "each needs" if least.device.n_devices > 1 else "needs"
    of_each = "one needs" if least.device.unlike else of_each
    smallest = "" if fit.dtype is not None else ", its smallest form,"
    return (
        f"does not fit {device_in_words(least.device)}: as {least.format}{smallest} with {tokens:,} tokens "
        f"{of_each} {needed} of {there}"
    )


def _change(formats: Formats, best: Choice | None) -> Record | None:
    """The one change that would help most: the first that lets the model fit, or that adds context."""
    return next(_enabling(formats) if best is None else _lengthening(formats, best), None)


def _enabling(formats: Formats) -> Iterator[Record]:
    """Changes with which a model would fit, the least first."""
    fit, first = formats.fit, formats.first
    if fit.dtype is not None:
        for choice in formats.below(first):
            if formats.does(choice, fit.wanted[-1]) and not is_published(choice.format):
                yield _changed("--dtype", choice.format, f"As {choice.format} it fits")
    if fit.context is not None:
        least = _nearest(formats)
        if least.context is not None and formats.does(least, least.context):
            yield _changed("--context", least.context, f"As {least.format} {least.context:,} tokens fit")
    yield from _offloading(formats)
    yield from _more_devices(formats)


def _offloading(formats: Formats) -> Iterator[Record]:
    """--offload auto, with the largest format that then fits."""
    if formats.fit.ram_bytes:
        return
    # ArchError: llama.cpp does not read the format, layers share states, or the device has no RAM beside it
    with suppress(ArchError):
        best = Formats(formats.fit.offloading()).best()
        if best is not None:
            how = f"With a part in RAM it fits as {best.format}, {rate_in_words(best.tokens_per_s)}"
            yield _changed("--offload", "auto", how)


def _more_devices(formats: Formats) -> Iterator[Record]:
    """More of the same devices, in the format of --dtype or in the smallest usual one."""
    first = _nearest(formats)
    n = MOST_DEVICES if first.device.unlike else first.device.n_devices
    while n < MOST_DEVICES:
        n = min(2 * n, MOST_DEVICES)
        device = f"{n}x{first.device.name}"
        with suppress(ArchError):
            more = Choice(formats.fit, first.dtype, device=device)
            if formats.does(more, formats.fit.wanted[-1]):
                yield _changed("--device", device, f"It fits {device} as {first.format}")
                return


def _lengthening(formats: Formats, best: Choice) -> Iterator[Record]:
    """A smaller cache dtype, if the device limits the context."""
    fit = formats.fit
    if best.context is None or best.context >= fit.longest:
        return
    for dtype in SMALLER_CACHES:
        if dtype in best.engine.cache_dtypes:
            with suppress(ArchError):
                longer = Choice(fit, best.dtype, kv_dtype=dtype).context
                if longer is not None and longer > best.context:
                    yield _changed("--kv-dtype", dtype, f"A cache in {dtype} holds {longer:,} tokens")


def _changed(option: str, value: Any, text: str) -> Record:
    return {"option": option, "value": value, "text": f"{text}: {option} {value}."}


def _tables(
    better: Choice | None,
    best: Choice | None,
    smaller: Choice | None,
    rival: Choice | None,
    shown: Choice,
    formats: Formats,
    *,
    verbose: bool,
) -> Iterator[Table]:
    of_rival = "" if rival is None else f"with {rival.engine.title}"
    named = {"next better": better, "chosen": best, "next smaller": smaller, of_rival: rival}
    records = [_line(which, choice) for which, choice in named.items() if choice is not None]
    if not records:
        yield Table(f"Counted as {_run_by(shown)}.", (), [])
        return
    yield Table(_how_sure(shown), (Column("which", ""), *OF_A_CHOICE), records)
    if verbose:
        every = [_line("", choice) for choice in formats.fitting()]
        yield Table(EVERY, (*OF_A_CHOICE, Column("engine", "engine")), every)


def _line(which: str, choice: Choice) -> Record:
    rates = choice.tokens_per_s
    figures = {**figures_of(rates), "rate": rate_in_words(rates)}
    return {"which": which, **choice.record(), **figures, "engine": choice.engine.name}


def figures_of(rates: Record) -> Record:
    """The expected rate and the range, rounded to three figures of the four that `predict` states."""
    expected, low, high, limit = (
        None if rates[name] is None else to_four(rates[name]) for name in ("expected", "low", "high", "floor")
    )
    if expected is None or low is None or high is None:
        return {"expected": None, "range": None if limit is None else f"at most {three_figures(limit)}"}
    return {
        "expected": round(expected, decimals_of(expected)),
        "range": f"{three_figures(low)} to {three_figures(high)}",
    }


def _how_sure(choice: Choice) -> str:
    """The certainty of the figures, and its source."""
    n = f"{choice.speed_at:,} tokens in the cache"
    if not choice.speed:
        return f"As {_run_by(choice)}; no rates of {choice.device.name} are known."
    origin = choice.speed["origin"]
    if origin is None:
        return f"As {_run_by(choice)}; the speed is an upper limit, as nothing was measured on such a device."
    of = f" of {origin.fitted_on}" if origin.fitted_on else ""
    where = f"{origin.error:.0%} off on average on {origin.rows:,} measurements{of}"
    return f"As {_run_by(choice)}. Speed with {n}: {where}."


def _run_by(choice: Choice) -> str:
    """`vLLM runs it, with a cache in fp8`: the engine, and a cache that is in another type than is usual."""
    cache = choice.question.settings.cache_dtype
    return f"{choice.engine.title} runs it{f', with a cache in {cache}' if cache else ''}"


def _of_margin(best: Choice | None) -> Iterator[str]:
    """What the engine was seen to take beyond the count: the tokens that fit beside it."""
    if best is None:
        return
    if best.verdict == "tight":
        yield tight_note(best.promised, best.promised.answer())
    sure = best.sure_context
    if sure is not None and sure != best.context:
        size = binary_bytes(best.engine.margin)
        yield f"Beside {margin_in_words(best.promised)}, up to {size}, {sure:,} tokens fit."


def _notes(formats: Formats, best: Choice | None, shown: Choice, change: Record | None) -> Iterator[str]:
    fit, widest = formats.fit, formats.first.format
    if best is not None and formats.on_cpu and is_narrow(best.format) > is_narrow(widest):
        yield f"On a CPU the first choice has 8 bits a weight or fewer: --dtype {widest} asks for more."
    if best is not None and fit.dtype is None and not has_bits(best.format, fit.min_bits):
        yield f"No form of {fit.min_bits:g} bits a weight or more fits (--min-bits)."
    if best is not None and shown.context and shown.context > shown.speed_at and fit.context is None:
        full = shown.predicted(shown.context).get("tokens_per_s")
        if full:
            yield f"With all {shown.context:,} tokens in the cache: {rate_in_words(full)}."
    if shown.device.n_devices > 1 and shown.question.plan.devices > 1:
        yield f"The devices share the model: {plan_in_words(shown.question.plan)}."
    offload = _offload(shown).get("offload")
    if offload is not None:
        from archcli.wings.serving.memory.answers.offloading import (  # of an offload alone
            offload_notes,
            rate_notes,
        )

        yield from offload_notes(shown.question, offload)
        yield from rate_notes(shown.question.settings)
    yield from version_notes(shown.engine, shown.question.model, None, shown.device)
    yield from _of_margin(best)
    yield from context_notes(shown.question.model, fit.context or 0)
    if change is not None:
        yield change["text"]
