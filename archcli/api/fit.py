"""fit: `archcli fit` in Python."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from archcli.api.asking.question import asks
from archcli.api.asking.subject import Subject, given
from archcli.api.fitting.question import FitOptions, asked_of, asking, inputs_of
from archcli.errors import ArchError
from archcli.load.devices.budget import read_budget, usual_device
from archcli.load.hub.catalogues import of_catalogue
from archcli.load.hub.model_files import GGUF, gguf_bytes
from archcli.measure.predict.fit.listing import Entry, Tick, fit_all
from archcli.measure.predict.fit.verdict import fit_model
from archcli.measure.report import Report

OF_MANY = ("where", "sort", "files")
"""Options of a question without a model."""
DEFAULTS = FitOptions()
LEAST_BITS = 2.5
"""Bits of a weight that no format goes below."""


Reading = Callable[[Any, Sequence[str]], Subject]


def fit_report(
    options: FitOptions,
    overrides: Sequence[str] = (),
    tick: Tick = lambda *_: None,
    read: Reading = given,
) -> Report:
    """The report on a model and a device, or on what fits a device.

    `tick` hears of each model of many; `read` loads a model, and `subject` standard input, too.
    """
    options, notes = _respelled(options)
    report = _report(options, overrides, tick, read)
    return replace(report, notes=(*report.notes, *notes))


def _report(options: FitOptions, overrides: Sequence[str], tick: Tick, read: Reading) -> Report:
    if options.model is not None:
        return _model(options, overrides, tick, read)
    if overrides:
        raise ArchError("--set changes a model, and none is named", "name one, or leave --set out")
    if options.device is not None and options.files is None:
        return _presets(options, tick)
    from archcli.api.fitting.machine import fit_machine  # of this machine alone

    return fit_machine(options, tick)


def _model(options: FitOptions, overrides: Sequence[str], tick: Tick, read: Reading) -> Report:
    """The report on one model."""
    try:
        subject = _loaded(options, overrides, read)
    except ArchError:
        # archcli fit 4090
        if options.device is None and _is_device(str(options.model)):
            return fit_report(replace(options, model=None, device=str(options.model)), (), tick)
        raise
    stated = [name for name in OF_MANY if vars(options)[name] != vars(DEFAULTS)[name]]
    if stated:
        what = f"--{stated[0]} chooses among models, and {options.model} is one"
        raise ArchError(what, f"leave --{stated[0]} or the model out")
    if options.device is None:
        from archcli.api.fitting.machine import this_device  # of this machine alone

        options = replace(options, device=this_device())
    return subject.judged(
        "fit", lambda: subject.named(fit_model(options.asked(subject), verbose=options.verbose))
    )


def _respelled(options: FitOptions) -> tuple[FitOptions, list[str]]:
    """The options with the names of archcli for those that people type, and notes on what was taken."""
    notes = []
    if options.device is not None:
        device, note = usual_device(options.device)
        options, notes = replace(options, device=device), [note]
    match options.model:
        case str() as name:
            named = of_catalogue(name)
            notes.append(named.note)
            options = replace(options, model=named.model, dtype=options.dtype or named.dtype or None)
    return options, [f"{note}." for note in notes if note]


def _loaded(options: FitOptions, overrides: Sequence[str], read: Reading) -> Subject:
    """The model of the options; ArchError for a GGUF file that is cut short, too."""
    subject = read(options.model, overrides)
    if subject.source.endswith(GGUF):
        gguf_bytes(Path(subject.source))
    return subject


def _is_device(name: str) -> bool:
    try:
        return read_budget(usual_device(name)[0]) is not None
    except ArchError:
        return False


def _presets(options: FitOptions, tick: Tick) -> Report:
    """The report on the presets that fit a device."""
    entries, asked = [*_entries(options)], asked_of(options, "presets")
    return fit_all(entries, asked, inputs_of(options), tick, verbose=options.verbose)


def _entries(options: FitOptions) -> Iterator[Entry]:
    """The presets that generate text and meet --where, by the index alone.

    Those with towers are asked about where a condition is on `media`: others list their language models.
    """
    from archcli.load.presets import preset_records  # of presets alone
    from archcli.measure.survey.columns import COLUMNS, CONDITIONS
    from archcli.measure.survey.presets import select

    with_towers = any("media" in condition for condition in options.where)
    for record in select(preset_records(COLUMNS), CONDITIONS, options.where):
        if record["kind"] != "encoder" and (with_towers or not record["media"]):
            least, beside = record["params"] * LEAST_BITS / 8, {"params": record["params"]}
            name = record["name"]
            yield Entry(name, least, asking(options, name), record["max_seq_len"], beside)


@asks(FitOptions)
def fit(options: FitOptions) -> Report:
    """Whether a model fits a device, in which format, with how much context, and how fast it is.

    `totals` hold fits, format, engine, context (the most tokens that fit), tokens_per_s (floor, expected, low
    and high), peak_bytes, memory_bytes, the next `better` and `smaller` format, and the one `change` that
    would help most. With a device alone `rows` are the presets, and `totals` fitting, asked and device.

    Example: `fit("llama-3.1-8b", "rtx-4090").totals["format"]` is bf16.
    """
    return fit_report(options)
