"""The report on the memory of a user's own module: the peak of a pass, and whether it fits a device."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from archcli.errors import ArchError, either, quote
from archcli.measure.report import Report, Table, facts
from archcli.units import binary_bytes
from archcli.wings.running.profile.summary import module_report
from archcli.wings.running.recording.own import ModuleRun, StepMemory
from archcli.wings.serving.memory.answers.headline import verdict_in_words
from archcli.wings.serving.memory.answers.verdict import verdict_of_bytes
from archcli.wings.serving.memory.plan import DeviceMemory
from archcli.wings.serving.memory.training.optimizers import (
    OPTIMIZERS,
    OptimizerBytes,
    TrainedTensor,
    optimizer,
)

CONVENTION = (
    "The peak: bytes of all storages that live at once in one pass of eager torch on a CPU; weights, buffers "
    "and inputs count, what a kernel takes within itself and what an allocator rounds up do not."
)
NEEDS_MATRICES = "muon"
"""Muon takes only matrices within layers, and a torch module does not say which weights these are."""


def memory_report(run: ModuleRun, name: str, device: DeviceMemory | None, margin: float) -> Report:
    """The report of `archcli memory` on a module. Raises ArchError for Muon.

    margin: the share of the peak that trainers were seen to take beyond it.
    """
    step = run.memory or StepMemory()
    trains = run.phase == "train"
    states = _states(step, name) if trains else OptimizerBytes(0, 0, 0)
    # the optimizer's step comes after the backward, with all gradients: its own peak may be the higher one
    whole = max(step.peak, step.end + int(states.temporaries)) + int(states.device)
    totals = {**_totals(step), "optimizer_bytes": int(states.device), "with_optimizer_bytes": whole}
    totals["fits"] = None if device is None else whole <= device.memory_bytes
    totals["verdict"] = verdict_of_bytes(device, whole, int(margin * whole) if trains else 0)
    inputs: dict[str, Any] = {"optimizer": name} if trains else {}
    if device is not None:
        inputs |= {"device": device.name, "memory_bytes": device.memory_bytes}
    return module_report(
        run,
        "memory",
        CONVENTION,
        totals=totals,
        rows=[{"what": name, "bytes": size} for name, size in totals["parts"].items()],
        tables=(_table(step, name if trains else "", totals),),
        inputs=inputs,
        notes=_notes(run, step),
        headline=_headline(run, totals, whole, device),
    )


def _headline(run: ModuleRun, totals: Mapping[str, Any], whole: int, device: DeviceMemory | None) -> str:
    """`Fits into rtx-4090 (23.5 GiB): 1.21 GiB at the peak with the optimizer, 114 MiB of weights`."""
    with_optimizer = " with the optimizer" if run.phase == "train" else ""
    peak = f"{binary_bytes(whole)} at the peak{with_optimizer}"
    weights = f"{binary_bytes(totals['parts']['weights'])} of weights"
    if device is None:
        return f"{peak}, {weights}"
    return f"{verdict_in_words(device, verdict=totals['verdict'])}: {peak}, {weights}"


def _states(step: StepMemory, name: str) -> OptimizerBytes:
    """Optimizer states of the weights with a gradient."""
    if name == NEEDS_MATRICES:
        what = f"the optimizer {quote(name)} is not known of a module of yours"
        others = [optimizer for optimizer in OPTIMIZERS if optimizer != name]
        raise ArchError(what, f"give {either(others)}")
    return optimizer(name).state(TrainedTensor(shape, width) for shape, width in step.trained)


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


def _table(step: StepMemory, name: str, totals: Mapping[str, Any]) -> Table:
    """The peak and its parts; of training also the states of the optimizer."""
    lines = [
        ("peak of the pass", step.peak),
        ("weights", step.weights),
        ("buffers", step.buffers),
        ("inputs", step.inputs),
        ("alive when the forward ends", step.kept),
    ]
    if name:
        lines += [
            ("gradients", step.gradients),
            (f"states of {name}", totals["optimizer_bytes"]),
            ("peak with them", totals["with_optimizer_bytes"]),
        ]
    return facts("Memory", *((what, size, "bytes") for what, size in lines))


def _notes(run: ModuleRun, step: StepMemory) -> Iterator[str]:
    yield f"The peak is in the {step.moment} of {step.path or run.name}."
    if run.phase == "train":
        yield "The loss is the output's sum, or what `loss` makes of it; an optimizer's step comes on top."
