"""The ceilings of this machine, for rooflines: known from an earlier run, or measured now."""

from __future__ import annotations

from dataclasses import replace

from archcli.commands.profile.settings import RunSettings
from archcli.load.ceilings import SEPARATOR, CeilingsKey, ceilings_file, kept_ceilings
from archcli.measure.profile.quality import is_disturbed
from archcli.recording.disturbance import ProcessorTimes, disturbance, processor_times
from archcli.recording.machine import Ceilings, processor
from archcli.recording.recording import Recording
from archcli.render.screen import Tick
from archcli.render.write import remember


def machine_ceilings(recording: Recording, settings: RunSettings, tick: Tick) -> Ceilings | None:
    """The ceilings for this dtype and number of threads; None where not asked for, or interrupted."""
    if not settings.ceilings or recording.partial:
        return None
    file, key = ceilings_file(), _key(recording, settings)
    kept = kept_ceilings(file)
    if key in kept and not settings.refresh:
        return kept[key]
    from archcli.runtime.dtypes import DTYPES
    from archcli.runtime.profile.ceilings import measure_ceilings

    tick("measuring what this machine can do", 0, 1)
    before = processor_times()
    ceilings = measure_ceilings(settings.dtype, DTYPES[settings.dtype], settings.device)
    if not is_disturbed(recording) and not is_disturbed(_with_disturbance_since(recording, before)):
        remember(file, kept | {key: ceilings})  # those of a disturbed machine are too low
    return ceilings


def _with_disturbance_since(recording: Recording, before: ProcessorTimes) -> Recording:
    """The recording with the disturbance since `before` in place of that of its passes."""
    times, processors = processor_times().since(before), recording.disturbance.processors
    return replace(recording, disturbance=disturbance([times], [times.wall_s], processors))


def _key(recording: Recording, settings: RunSettings) -> str:
    machine = recording.machine
    versions = [machine["torch"], *(machine[name] for name in ("CUDA", "fp32 products") if name in machine)]
    computes, threads = str(machine["processor"]), str(machine["threads"])
    on_cpu, of = processor(), SEPARATOR.join(map(str, versions))
    return CeilingsKey(on_cpu, computes, threads, settings.dtype, settings.device, of).text
