"""The device `local`: this machine, as `archcli profile` measured it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from archcli.graph.kept import Backend
from archcli.load.ceilings import best_by_dtype, ceilings_file, kept_ceilings
from archcli.measure.memory.answers.question import DeviceMemory
from archcli.measure.predict.answers.question import PredictedDevice
from archcli.measure.predict.calibrate.calibration import local_rates
from archcli.measure.predict.communication.collective import Fabric
from archcli.measure.predict.constants import Efficiency
from archcli.measure.predict.rank.rank_times import TimingDevice
from archcli.measure.predict.times import KernelClock
from archcli.recording.machine import processor

NO_CONSTANTS = Efficiency({})


def local_device(memory: DeviceMemory, kind: str, calibrations: Sequence[Path]) -> PredictedDevice:
    """This machine's GPU, or its CPU where `kind` is cpu, with constants fitted to profiles of it.

    Its peaks are those that profiles measured: of the calibrations, else kept from earlier runs. Raises
    ArchError where there are none, and for profiles that nothing can be fitted to.
    """
    backend: Backend = "cpu" if kind == "cpu" else "cuda"
    clock = _calibrated(memory, backend, calibrations) if calibrations else _known(memory, backend)
    fabric = Fabric(memory.name, devices_per_node=memory.n_devices)
    return PredictedDevice(TimingDevice(clock, fabric), memory, backend=backend)


def _calibrated(memory: DeviceMemory, backend: Backend, calibrations: Sequence[Path]) -> KernelClock:
    from archcli.commands._profiles.calibration import calibrated  # reads and fits profiles

    return calibrated(calibrations, memory.name, backend).clock


def _known(memory: DeviceMemory, backend: Backend) -> KernelClock:
    gpu = "" if backend == "cpu" else memory.name
    known = best_by_dtype(kept_ceilings(ceilings_file()), processor(), backend, gpu)
    return KernelClock(local_rates(memory.name, known, backend), NO_CONSTANTS)
