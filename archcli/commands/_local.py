"""The device `local`: this machine, as `archcli profile` measured it."""

from __future__ import annotations

from collections.abc import Callable

from archcli.errors import ArchError
from archcli.graph.kept import Backend
from archcli.load.ceilings import ceilings_file, kept_ceilings, machine_ceilings
from archcli.measure.memory.answers.question import DeviceMemory
from archcli.measure.predict.answers.question import PredictedDevice
from archcli.measure.predict.communication.fabric import Fabric
from archcli.measure.predict.constants import Efficiency
from archcli.measure.predict.rank.times import TimingDevice
from archcli.measure.predict.rates import Rates
from archcli.measure.predict.times import KernelClock
from archcli.recording.ceilings import Ceilings
from archcli.recording.machine import cache_size, processor

MEASURED_BY = "`archcli profile gpt2 --dtype {dtype} --device %s` measures it"
NO_CONSTANTS = Efficiency({})


def local_device(
    memory: DeviceMemory, kind: str, calibrated: Callable[[Backend], KernelClock] | None = None
) -> PredictedDevice:
    """This machine's GPU, or its CPU where `kind` is cpu, with constants fitted to profiles of it.

    Its peaks are those that profiles measured: of the calibrations, else kept from earlier runs. Raises
    ArchError where there are none, and for profiles that nothing can be fitted to.
    """
    backend: Backend = "cpu" if kind == "cpu" else "cuda"
    name = "" if backend == "cpu" else memory.name
    if calibrated is not None:
        clock = calibrated(backend)
    else:
        known = machine_ceilings(kept_ceilings(ceilings_file()), processor(), backend, name)
        clock = KernelClock(local_rates(memory.name, known, backend), NO_CONSTANTS)
    fabric = Fabric(memory.name, devices_per_node=memory.n_devices)
    return PredictedDevice(TimingDevice(clock, fabric), memory, backend=backend)


def local_rates(name: str, ceilings: dict[str, Ceilings], backend: Backend) -> Rates:
    """The rates of this machine from measured ceilings by dtype. Raises ArchError where there are none."""
    if not ceilings:
        hint = f"`archcli profile gpt2 --device {backend}` measures them (with --dtype bf16 those of bf16)"
        raise ArchError("local: the peaks of this machine are not measured yet", hint)
    size = cache_size() if backend == "cpu" else None
    return Rates.measured(name, ceilings, size, MEASURED_BY % backend)
