"""fit: `archcli fit` in Python."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from archcli.api.asking.question import asks
from archcli.api.asking.subject import Subject, given, taken_notes
from archcli.errors import ArchError
from archcli.measure.report import Report
from archcli.units import Taken
from archcli.wings.serving.api.fitting.question import FitOptions, inputs_of, list_question, question_of
from archcli.wings.serving.api.fitting.verdict import fit_model
from archcli.wings.serving.api.programs.command_lines import with_command
from archcli.wings.serving.api.programs.pasted import with_commands
from archcli.wings.serving.devices.budget import is_device
from archcli.wings.serving.devices.names import LOCAL

if TYPE_CHECKING:
    from archcli.wings.serving.api.fitting.listing import Entry, Tick

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
    return _report(options.on_device(), overrides, tick, read)


def _report(options: FitOptions, overrides: Sequence[str], tick: Tick, read: Reading) -> Report:
    if (options.device or "").lower() == LOCAL:
        options = replace(options, device=_this_device())
    if options.model is not None:
        return _model(options, overrides, tick, read)
    if overrides:
        raise ArchError("--set changes a model, and none is named", "name one, or leave --set out")
    for name in ("command", "draft"):
        if vars(options)[name]:
            what = f"--{name} is of one model, and none is named"
            raise ArchError(what, f"name one, or leave --{name} out")
    if options.device is not None and options.files is None:
        report = _presets(options, tick)
        return replace(report, notes=(*report.notes, *taken_notes(options)))
    from archcli.wings.serving.api.fitting.machine import fit_machine  # of this machine alone

    return fit_machine(options, tick)


def _model(options: FitOptions, overrides: Sequence[str], tick: Tick, read: Reading) -> Report:
    """The report on one model."""
    try:
        subject = _loaded(options, overrides, read)
    except ArchError:
        placed = _placed(options)
        if placed is None:
            raise
        return _report(placed, overrides if placed.model else (), tick, read)
    refused = [name for name in OF_MANY if vars(options)[name] != vars(DEFAULTS)[name]]
    if refused:
        what = f"--{refused[0]} chooses among models, and {options.model} is one"
        raise ArchError(what, f"leave --{refused[0]} or the model out")
    if options.device is None:
        options = replace(options, device=_this_device())

    def answer() -> Report:
        finish = partial(with_command, subject=subject, options=options)
        report = fit_model(options.question(subject), verbose=options.verbose, finish=finish)
        return subject.named(with_commands(report, "fit", subject, options), options)

    return subject.judged("fit", answer)


def _this_device() -> str:
    from archcli.wings.serving.api.fitting.machine import this_device  # of this machine alone

    return this_device()


def _placed(options: FitOptions) -> FitOptions | None:
    """The options with a device in its place, of `fit 4090` and `fit 4090 MODEL`; None for others."""
    device, model = str(options.model), options.device
    if not is_device(device) or (model is not None and is_device(model)):
        return None
    if model is None:
        return replace(options, model=None, device=device)
    note = f"{device} is taken as the device and {model} as the model: MODEL stands first"
    return replace(options, model=Taken(model, note), device=device)


def _loaded(options: FitOptions, overrides: Sequence[str], read: Reading) -> Subject:
    """The model of the options; ArchError for a GGUF file that is cut short, too."""
    subject = read(options.model, overrides)
    if subject.source.endswith(".gguf"):
        from archcli.wings.serving.devices.model_files import gguf_bytes  # of such files alone

        gguf_bytes(Path(subject.source))
    return subject


def _presets(options: FitOptions, tick: Tick) -> Report:
    """The report on the presets that fit a device."""
    from archcli.wings.serving.api.fitting.listing import fit_all  # of many models alone

    entries, question = [*_entries(options)], list_question(options, "presets")
    return fit_all(entries, question, inputs_of(options), tick, verbose=options.verbose)


def _entries(options: FitOptions) -> Iterator[Entry]:
    """The presets that generate text and meet --where, by the index alone.

    Those with towers are asked about where a condition is on `media`: others list their language models.
    """
    from archcli.load.presets import preset_records  # of presets alone
    from archcli.measure.survey.columns import COLUMNS, CONDITIONS
    from archcli.measure.survey.presets import select
    from archcli.wings.serving.api.fitting.listing import Entry

    with_towers = any("media" in condition for condition in options.where)
    for record in select(preset_records(COLUMNS), CONDITIONS, options.where):
        if record["kind"] != "encoder" and (with_towers or not record["media"]):
            least, columns = record["params"] * LEAST_BITS / 8, {"params": record["params"]}
            name = record["name"]
            yield Entry(name, least, question_of(options, name), record["max_seq_len"], columns)


@asks(FitOptions)
def fit(options: FitOptions) -> Report:
    """Whether a model fits a device, in which format, with how much context, and how fast it is.

    `totals` hold fits, format, engine, context (the most tokens that fit), tokens_per_s (floor, expected, low
    and high), peak_bytes, memory_bytes, the next `better` and `smaller` format, and the one `change` that
    would help most. With a device alone `rows` are the presets, and `totals` fitting, asked and device.

    Example: `fit("llama-3.1-8b", "rtx-4090").totals["format"]` is bf16.
    """
    return fit_report(options)
