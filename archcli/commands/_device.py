"""The device that --device or --memory names, for commands that fit something into it."""

from __future__ import annotations

from archcli.measure.memory.answers.question import DeviceMemory


def device_memory(device: str | None, memory: str | int | None) -> DeviceMemory | None:
    """The device of `[N×]NAME`, or a memory such as 80GiB; None where neither is given.

    Raises ArchError for both, and for what they cannot mean.
    """
    if device is None and memory is None:
        return None
    from archcli.load.devices.budget import read_budget  # reads files, where a device is named

    budget = read_budget(device, memory)
    if budget is None:
        return None
    return DeviceMemory(
        budget.name,
        budget.memory_bytes,
        budget.n_devices,
        budget.architecture,
        budget.certainty,
        budget.source,
    )


def known_gpus() -> tuple[DeviceMemory, ...]:
    """The GPUs of `archcli devices` whose memory is known."""
    from archcli.load.devices.datasheet import devices, load_datasheet  # reads a file for each

    sheets = [sheet for sheet in map(load_datasheet, devices()) if sheet.kind == "gpu"]
    return tuple(
        DeviceMemory(sheet.name, int(size.value), 1, sheet.architecture, size.certainty, size.source)
        for sheet in sheets
        if (size := sheet.figures.get("memory_bytes")) is not None
    )


def predicted_device(text: str) -> PredictedDevice:
    """The device of `[N×]NAME` with its peaks, links and constants.

    Raises ArchError for one whose peaks are not known, this machine's among them.
    """
    from archcli.load.devices.budget import read_budget

    budget = read_budget(text)
    sheet = budget and budget.datasheet
    ...
