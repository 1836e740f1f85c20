"""Profiles of this machine: the passes that they measured, and the constants fitted to them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from archcli.api.asking.subject import subject
from archcli.errors import ArchError, Problem
from archcli.graph.kept import Backend, Execution
from archcli.measure.passes import count_pass
from archcli.modules import Model
from archcli.modules.models.layers import folded_path
from archcli.modules.spec.request import Request
from archcli.wings.serving.api.known_device.saved_profile import Document, read_profile
from archcli.wings.serving.devices.ceilings import best_by_dtype, ceilings_file, kept_ceilings
from archcli.wings.serving.launches.kernel import KernelRun
from archcli.wings.serving.launches.trace import trace_kernels
from archcli.wings.serving.memory.plan import DeviceMemory
from archcli.wings.serving.predict.answers.question import PredictedDevice
from archcli.wings.serving.predict.calibrate.calibration import CalibrationSource, calibrate, local_rates
from archcli.wings.serving.predict.calibrate.samples import MeasuredRun
from archcli.wings.serving.predict.communication.collective import Fabric
from archcli.wings.serving.predict.constants import WIDTHS, Efficiency
from archcli.wings.serving.predict.rank.rank_times import TimingDevice
from archcli.wings.serving.predict.times import KernelClock
from archcli.wings.serving.recorded.classes import FRAMEWORK, UNATTRIBUTED
from archcli.wings.serving.recorded.machine import Ceilings, processor
from archcli.wings.serving.recorded.schema import is_comparison

PRESET = "preset "
FORMS = ("mla", "scan")


def model_of(document: Mapping[str, Any]) -> Model:
    """The model of a profile, with its changes, cut to its layers. Raises ArchError where it is gone."""
    inputs, source = document["inputs"], document["model"]["source"]
    model = subject(source.removeprefix(PRESET), inputs.get("set")).model
    if inputs["layers"] is None:
        return model
    from archcli.wings.serving.predict.calibrate.cut import cut  # of profiles that ask for it

    return cut(model, inputs["layers"])


def request_of(inputs: Mapping[str, Any]) -> Request:
    """The pass of a profile, by its inputs."""
    forms = {name: inputs[name] for name in FORMS if inputs.get(name)}
    sizes = (inputs["batch_size"], inputs["seq_len"], inputs["past"], inputs["source_len"])
    return Request(inputs["phase"], *sizes, forms=forms).resolved()


def kernels_of(model: Model, request: Request, inputs: Mapping[str, Any]) -> tuple[KernelRun, ...]:
    """The kernels of a profile's pass, by its inputs; those of a rank without what it exchanges.

    Raises ArchError for an operation whose kernels are not known.
    """
    backend: Backend = "cpu" if inputs["device"] == "cpu" else "cuda"
    dtype, is_fused = inputs["dtype"], inputs["attention"] != "eager"
    execution = Execution(backend, is_fused, int(WIDTHS[dtype]), request.phase == "train")
    sent = frozenset(_sent(model, request))
    runs = trace_kernels(model, request, execution, dtype=dtype)
    return tuple(run for run in runs if folded_path(run.path) not in sent)


def _sent(model: Model, request: Request) -> Iterator[str]:
    """Paths of what ranks exchange, layers folded."""
    for row in count_pass(model, request).rows:
        if row.op.exchanges:
            yield folded_path(row.path)


NO_CONSTANTS = Efficiency({})


def local_device(memory: DeviceMemory, kind: str, calibrations: Sequence[Path]) -> PredictedDevice:
    """This machine's GPU, or its CPU where `kind` is cpu, with constants fitted to profiles of it.

    Its peaks are those that profiles measured: of the calibrations, else kept from earlier runs. Raises
    ArchError where there are none, and for profiles that nothing can be fitted to.
    """
    backend: Backend = "cpu" if kind == "cpu" else "cuda"
    clock = calibrated(calibrations, memory.name, backend).clock if calibrations else _known(memory, backend)
    fabric = Fabric(memory.name, devices_per_node=memory.n_devices)
    return PredictedDevice(TimingDevice(clock, fabric), memory, backend=backend)


def _known(memory: DeviceMemory, backend: Backend) -> KernelClock:
    gpu = "" if backend == "cpu" else memory.name
    known = best_by_dtype(kept_ceilings(ceilings_file()), processor(), backend, gpu)
    return KernelClock(local_rates(memory.name, known, backend), NO_CONSTANTS)


SIZES = ("phase", "batch_size", "seq_len", "past", "source_len", "attention", "layers", "set", "mla", "scan")
"""Inputs that tell one pass from another."""


class SavedRun(NamedTuple):
    """A profile and its file."""

    path: Path
    document: Document

    def refused(self, what: str, hint: str) -> ArchError:
        """The error that says why nothing is fitted to it."""
        return ArchError(Problem(what, hint, path=str(self.path)))

    def check(self, name: str, backend: Backend) -> None:
        """Raise ArchError for a profile of another machine, or of a pass that has no kernels to be fitted."""
        if is_comparison(self.document):
            raise self.refused("a profile with --vs compares several models", "profile one of them")
        inputs, totals = self.document["inputs"], self.document["totals"]
        if inputs["device"].partition(":")[0] != backend:
            hint = f"profile with --device {backend}"
            raise self.refused(f"measured on {inputs['device']}, and local is {backend}", hint)
        of_machine = {"CPU": processor(), **({} if backend == "cpu" else {"processor": name})}
        for what, here in of_machine.items():
            there = str(totals["machine"].get(what, ""))
            if here and there != here:
                raise self.refused(f"measured on {there}, and this machine has {here}", "profile here")
        if totals["compiled"] or totals["extrapolated"] or totals["partial"] or "ranks" in totals:
            what = "compiled, interrupted, measured by kinds of layer, or of several ranks"
            raise self.refused(what, "constants are fitted to whole passes, operation by operation")
        if totals["ceilings"] is None:
            raise self.refused("measured without the machine's ceilings", "leave --no-ceilings out")

    def measured(self) -> MeasuredRun:
        """The profile with the kernels of its pass. Raises ArchError where the model is another by now."""
        inputs, totals = self.document["inputs"], self.document["totals"]
        try:
            model = model_of(self.document)
        except ArchError as error:
            what = f"its model cannot be read again: {error.problems[0].what}"
            raise self.refused(what, "profile a model that is there") from error
        request = request_of(inputs)
        # the file or the preset may have changed since: FLOPs of the pass tell
        if count_pass(model, request).flops()[0] != totals["matmul_flops"]:
            raise self.refused(f"{self.document['model']['name']} is another model by now", "profile it anew")
        by_class = totals["by_class"]
        outside_s = sum(by_class[name]["seconds"] for name in (FRAMEWORK, UNATTRIBUTED) if name in by_class)
        seconds = {row["path"]: row["seconds"] for row in self.document["rows"]}
        sizes = str((self.document["model"]["source"], *(inputs.get(name) for name in SIZES)))
        kernels, trains = kernels_of(model, request, inputs), request.phase == "train"
        return MeasuredRun(str(self.path), sizes, kernels, seconds, outside_s, trains)


class CalibratedClock(NamedTuple):
    """The clock of this machine with constants fitted to profiles, and the threads that these ran on."""

    clock: KernelClock
    threads: str


def calibrated(files: Sequence[Path], name: str, backend: Backend) -> CalibratedClock:
    """The clock of this machine: peaks that the profiles measured, and constants fitted to their rows.

    Raises ArchError for a file that is no such profile, for profiles of several settings, and for fewer than
    three sizes of a class.
    """
    saved = [SavedRun(path, read_profile(path)) for path in files]
    for run in saved:
        run.check(name, backend)
    dtype = _one_of(saved, "dtype", [run.document["inputs"]["dtype"] for run in saved])
    threads = _one_of(saved, "threads", [run.document["totals"]["machine"].get("threads") for run in saved])
    rates = local_rates(name, {dtype: _fastest(saved)}, backend)
    command = f"`archcli profile gpt2 -s 512 --dtype {dtype} --device {backend} --json -o FILE`"
    table, today = ", ".join(map(str, files)), datetime.now().astimezone().date().isoformat()
    source = CalibrationSource(table, dtype, today, command)
    constants = calibrate([run.measured() for run in saved], rates, source)
    return CalibratedClock(KernelClock(rates, constants), threads)


def _one_of(saved: Sequence[SavedRun], what: str, values: Sequence[Any]) -> str:
    """What all profiles have in common. Raises ArchError where they differ."""
    path_of = {str(value): run.path for run, value in zip(saved, values, strict=True)}
    if len(path_of) > 1:
        differing = " and ".join(f"{value} in {path}" for value, path in path_of.items())
        raise ArchError(f"--calibrate: {what} differs, {differing}", "profile all with the same")
    return next(iter(path_of))


def _fastest(saved: Sequence[SavedRun]) -> Ceilings:
    """The fastest rates of all, as whatever else ran can only slow them down."""
    all_of_them: list[Ceilings] = [run.document["totals"]["ceilings"] for run in saved]
    fastest = max(all_of_them, key=lambda machine: machine["gemm_flops_per_s"])
    return {
        **fastest,
        "dram_bytes_per_s": max(machine["dram_bytes_per_s"] for machine in all_of_them),
        "cache_bytes_per_s": max(machine["cache_bytes_per_s"] for machine in all_of_them),
    }
