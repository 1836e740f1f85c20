"""`--calibrate FILE`: profiles of this machine, read back, and the constants that are fitted to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from archcli.commands.base import subject
from archcli.errors import ArchError, Problem
from archcli.graph.kept import Backend, Execution
from archcli.kernels import KernelRun, trace_kernels
from archcli.load.saved import read_result
from archcli.measure.passes import count_pass
from archcli.measure.predict.calibrate.calibration import CalibrationSource, calibrate
from archcli.measure.predict.calibrate.samples import MeasuredRun
from archcli.measure.predict.rates import WIDTHS, Rates
from archcli.measure.predict.times import KernelClock
from archcli.modules import Model
from archcli.modules.request import Request
from archcli.recording.ceilings import Ceilings
from archcli.recording.classes import FRAMEWORK, UNATTRIBUTED
from archcli.recording.machine import processor

Document = Mapping[str, Any]
RatesOf = Callable[[str, dict[str, Ceilings], Backend], Rates]
"""Rates of this machine by a name, from measured ceilings by dtype, of a CPU or a GPU."""
PRESET = "preset "
SIZES = ("phase", "batch_size", "seq_len", "past", "source_len", "attention", "layers", "set", "mla", "scan")
"""Inputs that tell one pass from another."""
FORMS = ("mla", "scan")


def calibrated(files: Sequence[Path], name: str, backend: Backend, rates_of: RatesOf) -> KernelClock:
    """The clock of this machine: peaks that the profiles measured, and constants fitted to their rows.

    Raises ArchError for a file that is no such profile, for profiles of several settings, and for fewer than
    three sizes of a class.
    """
    documents = [read_profile(path) for path in files]
    for path, document in zip(files, documents, strict=True):
        _check(path, document, backend)
    dtype = _one_of(files, documents, "dtype")
    _one_of(files, documents, "threads")
    rates = rates_of(name, {dtype: _fastest(documents)}, backend)
    runs = [_run(path, document) for path, document in zip(files, documents, strict=True)]
    command = f"`archcli profile gpt2 -s 512 --dtype {dtype} --device {backend} --json -o FILE`"
    table, today = ", ".join(str(path) for path in files), datetime.now().astimezone().date().isoformat()
    return KernelClock(rates, calibrate(runs, rates, CalibrationSource(table, dtype, today, command)))


def read_profile(path: Path) -> Document:
    """The profile of one model in a file. Raises ArchError for any other file."""
    from archcli.measure.profile.schema import first_violation, is_comparison

    document = read_result(path, "profile")
    wrong = first_violation(document)
    if wrong is not None:
        what = f"no profile as archcli writes it: {wrong.place}: {wrong.reason}"
        raise _refused(path, what, "archcli schema --of profile says what archcli writes")
    if is_comparison(document):
        raise _refused(path, "a profile with --vs compares several models", "profile one of them")
    return document


def _check(path: Path, document: Document, backend: Backend) -> None:
    """Raise ArchError for a profile of another machine, or of a pass whose kernels are not known."""
    inputs, totals = document["inputs"], document["totals"]
    device = "cpu" if inputs["device"] == "cpu" else "cuda"
    if device != backend:
        hint = f"profile with --device {backend}"
        raise _refused(path, f"measured on {inputs['device']}, and local is {backend}", hint)
    measured_on = str(totals["machine"].get("CPU", ""))
    if processor() and measured_on != processor():
        raise _refused(path, f"measured on {measured_on}, and this machine has {processor()}", "profile here")
    if totals["compiled"] or totals["extrapolated"] or totals["partial"] or "ranks" in totals:
        what = "compiled, interrupted, measured by kinds of layer, or of several ranks"
        raise _refused(path, what, "constants are fitted to whole passes, operation by operation")
    if totals["ceilings"] is None:
        raise _refused(path, "measured without the machine's ceilings", "leave --no-ceilings out")


def _one_of(files: Sequence[Path], documents: Sequence[Document], what: str) -> str:
    """What all profiles have in common. Raises ArchError where they differ."""
    found = {str(_setting(one, what)): path for path, one in zip(files, documents, strict=True)}
    if len(found) > 1:
        values = " and ".join(f"{value} in {path}" for value, path in found.items())
        raise ArchError(f"--calibrate: {what} differs, {values}", "profile all with the same")
    return next(iter(found))


def _setting(document: Document, what: str) -> Any:
    inputs, machine = document["inputs"], document["totals"]["machine"]
    return machine.get(what, inputs.get(what)) if what == "threads" else inputs[what]


def _fastest(documents: Sequence[Document]) -> Ceilings:
    """The fastest rates of all, as whatever else ran can only slow them down."""
    all_of_them: list[Ceilings] = [document["totals"]["ceilings"] for document in documents]
    fastest = max(all_of_them, key=lambda one: one["gemm_flops_per_s"])
    return {
        "gemm_flops_per_s": fastest["gemm_flops_per_s"],
        "dram_bytes_per_s": max(one["dram_bytes_per_s"] for one in all_of_them),
        "cache_bytes_per_s": max(one["cache_bytes_per_s"] for one in all_of_them),
        "dtype": fastest["dtype"],
        "measured": "earlier",
    }


def _run(path: Path, document: Document) -> MeasuredRun:
    """The profile with the kernels of its pass. Raises ArchError where the model is another by now."""
    inputs, totals = document["inputs"], document["totals"]
    model, request = _model(document), request_of(inputs)
    if count_pass(model, request).flops()[0] != totals["matmul_flops"]:
        raise _refused(path, f"{document['model']['name']} is another model by now", "profile it anew")
    by_class = totals["by_class"]
    framework_s = sum(by_class[name]["seconds"] for name in (FRAMEWORK, UNATTRIBUTED) if name in by_class)
    seconds = {row["path"]: row["seconds"] for row in document["rows"]}
    sizes = str((document["model"]["source"], *(inputs.get(name) for name in SIZES)))
    return MeasuredRun(str(path), sizes, kernels_of(model, request, inputs), seconds, framework_s)


def _model(document: Document) -> Model:
    """The model of a profile, with its changes, cut to its layers."""
    inputs, source = document["inputs"], document["model"]["source"]
    model = subject(source.removeprefix(PRESET), inputs.get("set")).model
    if inputs["layers"] is None:
        return model
    from archcli.measure.profile.extrapolate.kinds import cut  # of profiles that ask for it

    return cut(model, inputs["layers"])


def request_of(inputs: Mapping[str, Any]) -> Request:
    """The pass of a profile, by its inputs."""
    forms = {name: inputs[name] for name in FORMS if inputs.get(name)}
    sizes = (inputs["batch_size"], inputs["seq_len"], inputs["past"], inputs["source_len"])
    return Request(inputs["phase"], *sizes, forms=forms).resolved()


def kernels_of(model: Model, request: Request, inputs: Mapping[str, Any]) -> tuple[KernelRun, ...]:
    """The kernels of a profile's pass, by its inputs."""
    backend: Backend = "cpu" if inputs["device"] == "cpu" else "cuda"
    dtype, is_fused = inputs["dtype"], inputs["attention"] != "eager"
    execution = Execution(backend, is_fused, int(WIDTHS[dtype]), request.phase == "train")
    return trace_kernels(model, request, execution, dtype=dtype)


def _refused(path: Path, what: str, hint: str) -> ArchError:
    return ArchError(Problem(what, hint, path=str(path)))
