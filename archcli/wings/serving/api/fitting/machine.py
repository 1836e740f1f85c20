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
        return _none(options, here, files)
    report = fit_all(
        [*_entries(options, files)],
        list_question(options, "model files"),
        inputs_of(options),
        tick,
        verbose=options.verbose,
    )
    return replace(report, notes=(*_of_machine(here), *report.notes, *_skipped(files)))


def _entries(options: FitOptions, files: ModelFiles) -> Iterator[Entry]:
    for file in files.models:
        columns = {"file": str(file.path), "bytes": file.n_bytes}
        # tables may stay in RAM, so that its bytes are no bound
        yield Entry(file.name, 0, question_of(options, str(file.path)), None, columns)


def _none(options: FitOptions, here: Machine, files: ModelFiles) -> Report:
    """The report where no model file was found: a line that says what to ask instead."""
    where = options.files or CACHES
    device = "NAME" if options.device == LOCAL else options.device
    gpus = ", ".join(device.text for device in here.devices) or "no GPU"
    line = (
        f"This machine has {gpus}, and no model files lie in {where}: "
        f"`archcli fit --device {device}` says which presets fit."
    )
    totals = {"fitting": 0, "asked": 0, "device": options.device}
    return Report("fit", {}, {"files": options.files}, "", totals, [], (), [*_skipped(files)], headline=line)


def _of_machine(here: Machine) -> Iterator[str]:
    """What this machine has."""
    parts = [device.text for device in here.devices]
    if here.ram_bytes:
        parts.append(f"{gib(here.ram_bytes)} of RAM")
    if parts:
        yield f"This machine: {', '.join(parts)}."


def _skipped(files: ModelFiles) -> Iterator[str]:
    """Files that are left out, and why."""
    for file in files.skipped[:SHOWN]:
        yield f"Left out: {file.path}: {file.reason}."
    if len(files.skipped) > SHOWN:
        yield f"{len(files.skipped) - SHOWN} more files were left out."
