"""The ceilings of this machine, for rooflines: known from an earlier run, or measured now."""

from __future__ import annotations

from archcli.commands.profile.settings import RunSettings
from archcli.load.ceilings import ceilings_file, kept_ceilings
from archcli.recording.ceilings import Ceilings
from archcli.recording.machine import processor
from archcli.recording.recording import Recording
from archcli.render.progress import Tick
from archcli.render.write import remember

MOST_LOAD = 0.5
"""Processes per processor at the start; beyond, measured ceilings are too low to be remembered."""


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
    ceilings = measure_ceilings(settings.dtype, DTYPES[settings.dtype], settings.device)
    if recording.load <= MOST_LOAD:
        remember(file, kept | {key: ceilings})
    return ceilings


def _key(recording: Recording, settings: RunSettings) -> str:
    machine = recording.machine
    parts = [processor(), machine["processor"], machine["threads"], settings.dtype, settings.device]
    parts += [machine["torch"], *(machine[name] for name in ("CUDA", "fp32 products") if name in machine)]
    return " | ".join(map(str, parts))
