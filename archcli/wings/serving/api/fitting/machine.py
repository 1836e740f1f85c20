"""What fits this machine: its devices, and the model files that lie on it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from archcli.errors import ArchError
from archcli.measure.report import Report
from archcli.units import gib
from archcli.wings.serving.api.fitting.listing import Entry, Tick, fit_all
from archcli.wings.serving.api.fitting.question import FitOptions, inputs_of, list_question, question_of
from archcli.wings.serving.api.fitting.suited import USABLE, USUAL, Suited, suited
from archcli.wings.serving.devices.budget import is_device
from archcli.wings.serving.devices.model_files import ModelFiles, cached_model_files, model_files
from archcli.wings.serving.devices.names import LOCAL
from archcli.wings.serving.devices.this import Machine, machine

SHOWN = 3
"""Files that notes name."""
CACHES = "the caches of the hub, llama.cpp, LM Studio and Ollama"


def this_device(here: Machine | None = None) -> str:
    """The device of this machine as --device takes it: its GPUs, or `local`."""
    here = machine() if here is None else here
    return next((device.text for device in here.devices if device.is_listed), LOCAL)


def fit_machine(options: FitOptions, tick: Tick) -> Report:
    """The report on the model files of this machine, or of --files, on its devices or on --device."""
    if options.where:
        raise ArchError("--where chooses among presets, and model files are asked about", "leave it out")
    here = machine()

    def tell(path: Path) -> None:
        tick(path.name, 0, 0)

    files = cached_model_files(tell) if options.files is None else model_files(Path(options.files), tell)
    options = replace(options, device=options.device or this_device(here))
    if not files.models:
        none = f"no model files lie in {options.files or CACHES}"
        # where the system does not say what memory there is, a device has to be named
        if options.files is not None or not is_device(options.device or LOCAL):
            return _none(options, here, none, files)
        return _suited(options, here, none, tick)
    report = fit_all(
        [*_entries(options, files)],
        list_question(options, "model files"),
        inputs_of(options),
        tick,
        verbose=options.verbose,
    )
    return replace(report, notes=(f"{_of_machine(here)}.", *report.notes, *_skipped(files)))


def _entries(options: FitOptions, files: ModelFiles) -> Iterator[Entry]:
    for file in files.models:
        columns = {"file": str(file.path), "bytes": file.n_bytes}
        # tables may stay in RAM, so that its bytes are no bound
        yield Entry(file.name, 0, question_of(options, str(file.path)), None, columns)


def _none(options: FitOptions, here: Machine, none: str, files: ModelFiles) -> Report:
    """The report where no model file was found: a line that says what to ask instead."""
    device = "NAME" if options.device == LOCAL else options.device
    line = f"{_of_machine(here)}, and {none}: `archcli fit --device {device}` says which presets fit."
    totals = {"fitting": 0, "asked": 0, "device": options.device}
    return Report("fit", {}, {"files": options.files}, "", totals, [], (), [*_skipped(files)], headline=line)


def _suited(options: FitOptions, here: Machine, none: str, tick: Tick) -> Report:
    """The report on the presets that suit this machine."""
    chosen = suited(options, tick)
    question = list_question(chosen.options, "presets")
    report = fit_all(chosen.entries, question, inputs_of(chosen.options), tick, verbose=options.verbose)
    those = f"{len(chosen.entries)} presets that suit {question.device}, the largest first"
    line = f"{_of_machine(here)}, and {none}: {those}"
    return replace(report, headline=line, notes=(*_how(chosen), *report.notes))


def _how(chosen: Suited) -> Iterator[str]:
    """How the presets were chosen."""
    speed = chosen.options.min_speed
    fast = "the fastest" if speed is None else f"the largest of {speed:g} tokens/s or more"
    if not chosen.is_timed:
        fast = f"the largest that RAM of {USUAL / 1e9:g} GB/s runs at {USABLE:g} tokens/s"
        yield "No rates of this machine are known: `archcli profile gpt2` measures them."
    yield (
        f"Of each well-known series {fast}, from {chosen.since} or later: "
        f"`archcli fit --device {chosen.options.device}` lists all presets that fit."
    )


def _of_machine(here: Machine) -> str:
    """`This machine has rtx-4090 (22.1 GiB free of 23.5 GiB) and 55.0 GiB free of 62.7 GiB of RAM`."""
    gpus = [f"{gpu.text}{_free(gpu.memory_bytes, gpu.free_bytes, ' ({})')}" for gpu in here.devices]
    ram = _free(here.ram_bytes, here.ram_free_bytes, " and {} of RAM")
    return f"This machine has {', '.join(gpus) or 'no GPU'}{ram}"


def _free(in_all: int | None, free: int | None, text: str) -> str:
    """`22.1 GiB free of 23.5 GiB` in a text, or what is known of it; empty where nothing is."""
    known = [*([] if free is None else [f"{gib(free)} free"]), *([gib(in_all)] if in_all else [])]
    return text.format(" of ".join(known)) if known else ""


def _skipped(files: ModelFiles) -> Iterator[str]:
    """Files that are left out, and why."""
    for file in files.skipped[:SHOWN]:
        yield f"Left out: {file.path}: {file.reason}."
    if len(files.skipped) > SHOWN:
        yield f"{len(files.skipped) - SHOWN} more files were left out."
