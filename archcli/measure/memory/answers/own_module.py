"""The report on the memory of a module of one's own: the peak of a pass, and whether it fits a device."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from archcli.errors import ArchError, either, quote
from archcli.measure.memory.answers.question import DeviceMemory
from archcli.measure.memory.answers.tables import bytes_in_words
from archcli.measure.report import Report, Table, facts
from archcli.recording.own import ModuleRun, StepMemory

CONVENTION = (
    "The peak: bytes of all storages that live at once in one pass of eager torch on a CPU; weights, buffers "
    "and inputs count, what a kernel takes within itself and what an allocator rounds up do not."
)
STATES = {"adamw": 2, "adamw-mixed": 2, "adamw-fused": 2, "sgd": 0, "sgd-momentum": 1, "none": 0}
"""Tensors as large as a weight that an optimizer of torch keeps for each."""


def memory_report(run: ModuleRun, optimizer: str, device: DeviceMemory | None) -> Report:
    """The report of `archcli memory` on a module. Raises ArchError for an optimizer that is not known."""
    step = run.memory or StepMemory()
    trains = run.phase == "train"
    states = _optimizer_bytes(step, optimizer) if trains else 0
    totals = {**_totals(step), "optimizer_bytes": states, "with_optimizer_bytes": step.peak + states}
    whole = step.peak + states
    totals["fits"] = None if device is None else whole <= device.memory_bytes
    asked: dict[str, Any] = {"optimizer": optimizer} if trains else {}
    if device is not None:
        asked |= {"device": device.name, "memory_bytes": device.memory_bytes}
    return Report(
        command="memory",
        model={"name": run.name, "source": run.source},
        inputs={"phase": run.phase, "run_on": run.run_on, "input": list(run.inputs), **asked},
        usual={"run_on": "meta"},
        convention=CONVENTION,
        totals=totals,
        rows=[{"what": name, "bytes": size} for name, size in totals["parts"].items()],
        tables=(_table(step, optimizer if trains else "", states),),
        notes=tuple(_notes(run, step, whole, device)),
    )


def _totals(step: StepMemory) -> dict[str, Any]:
    return {
        "peak_bytes": step.peak,
        "moment": step.moment,
        "path": step.path,
        "parts": {
            "weights": step.weights,
            "buffers": step.buffers,
            "inputs": step.inputs,
            "gradients": step.gradients,
        },
        "kept_bytes": step.kept,
        "end_bytes": step.end,
    }


def _table(step: StepMemory, optimizer: str, states: int) -> Table:
    """The peak and what is part of it; of training also what an optimizer adds."""
    lines = [
        ("peak of the pass", step.peak),
        ("weights", step.weights),
        ("buffers", step.buffers),
        ("inputs", step.inputs),
        ("alive when the forward ends", step.kept),
    ]
    if optimizer:
        lines += [
            ("gradients", step.gradients),
            (f"states of {optimizer}", states),
            ("peak with them", step.peak + states),
        ]
    return facts("Memory", *((what, size, "bytes") for what, size in lines))


def _optimizer_bytes(step: StepMemory, optimizer: str) -> int:
    if optimizer not in STATES:
        what = f"of a module of yours the optimizer {quote(optimizer)} is not known"
        raise ArchError(what, f"give {either(STATES)}")
    # states are as wide as the weight, and there for what has a gradient
    return STATES[optimizer] * step.gradients


def _notes(run: ModuleRun, step: StepMemory, whole: int, device: DeviceMemory | None) -> Iterator[str]:
    yield f"The peak is in the {step.moment} of {step.path or run.name}."
    if run.phase == "train":
        yield "The loss is the output's sum, or what `loss` makes of it; an optimizer's step comes on top."
    if device is not None:
        left = device.memory_bytes - whole
        size, of_device = bytes_in_words(whole), bytes_in_words(device.memory_bytes)
        if left >= 0:
            yield f"It fits {device.name}: {size} of {of_device}; kernels and the allocator take more."
        else:
            yield f"It does not fit {device.name}: {size} of {of_device}."
    yield from run.notes
