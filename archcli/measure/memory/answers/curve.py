"""The peak by batch size, beside the memory of devices: what the picture of a report draws."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from archcli.measure.memory.answers.question import DeviceMemory, MemoryQuestion

DOUBLINGS = 12
LINES = ("rtx-4090", "a100-sxm-40gb", "h100-sxm", "h200-sxm", "b200-sxm", "mi355x")
"""Devices that are drawn where the question names none: one of each usual size."""


class BatchCurve(NamedTuple):
    """(batch size, bytes) of the peak with what is beyond the model, and (name, bytes) of devices."""

    points: tuple[tuple[int, int], ...]
    devices: tuple[tuple[str, int], ...]


def batch_curve(question: MemoryQuestion, known: Sequence[DeviceMemory]) -> BatchCurve:
    """Peaks of batch sizes that double from 1, to the first beyond the largest device."""
    devices = [question.device] if question.device else [one for one in known if one.name in LINES]
    most = max((device.memory_bytes for device in devices), default=0)
    points = []
    for n in range(DOUBLINGS):
        points.append((2**n, question.changed(batch_size=2**n).answer().needed_bytes))
        if points[-1][1] > most and len(points) > 1:
            break
    return BatchCurve(tuple(points), tuple((device.name, device.memory_bytes) for device in devices))
