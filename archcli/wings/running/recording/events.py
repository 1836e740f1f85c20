"""The events of a kineto trace: kind, time, and the range or call that launched them. No torch.

Two numberings meet in a trace. A range on the CPU has a number of its own, from 1 in each trace. A call of
CUDA and the device activity it launched share one of CUPTI's, from 1 in each process, and name the range they
were called in by its number. The same number may occur in both, so that it is looked up among one kind only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

Kind = Literal["cpu", "call", "kernel", "copy", "fill"]
"""A range on the CPU; a call of CUDA; on the device a kernel, a copy, and a fill of memory with a byte."""
TIMED = "archcli pass"
"""The range around a timed pass on a device: all that belongs to the pass begins within."""

_CALL = re.compile(r"(cuda|cu|hip)[A-Z]")
_LAUNCH = re.compile(
    r"(cuda|cu|hip)(Launch(Cooperative)?Kernel|GraphLaunch|(Ext)?ModuleLaunch|Memcpy|Memset)"
)
_DEVICE_KINDS: dict[str, Kind] = {"kernel": "kernel", "gpu_memcpy": "copy", "gpu_memset": "fill"}


class Event(NamedTuple):
    """A range of a trace.

    thread: on a device the stream. sequence: number of the autograd node, or -1. id: number of the range.
    launched_by: number of the CPU range around the call, or 0.
    """

    name: str
    start_ns: int
    end_ns: int
    thread: int
    sequence: int = -1
    id: int = 0
    launched_by: int = 0
    kind: Kind = "cpu"

    @property
    def on_device(self) -> bool:
        """Whether the event ran on the device."""
        return self.kind in {"kernel", "copy", "fill"}

    @property
    def launches(self) -> bool:
        """Whether the event is a call that launches a kernel, a graph of kernels, a copy or a fill."""
        return self.kind == "call" and _LAUNCH.match(self.name) is not None

    @property
    def waits(self) -> bool:
        """Whether the event is a call that waits for the device, a stream or an event."""
        return self.kind == "call" and self.name.endswith("Synchronize")

    @property
    def crosses(self) -> bool:
        """Whether the event is a copy between device and host or another device."""
        return self.kind == "copy" and "DtoD" not in self.name


def events_of(trace: Any) -> Iterator[Event]:
    """The ranges of a finished `torch.autograd.profiler.profile`."""
    for raw in trace.kineto_results.events():
        kind = _kind(raw)
        if kind is not None:
            start = raw.start_ns()
            yield Event(
                name=raw.name(),
                start_ns=start,
                end_ns=start + raw.duration_ns(),
                thread=raw.start_thread_id() if kind in {"cpu", "call"} else raw.device_resource_id(),
                sequence=raw.sequence_nr(),
                id=raw.correlation_id(),
                launched_by=raw.linked_correlation_id(),
                kind=kind,
            )


def _kind(raw: Any) -> Kind | None:
    """The kind of an event; None for copies of CPU ranges and the tracer's overhead."""
    activity = raw.activity_type() if hasattr(raw, "activity_type") else ""
    if raw.device_type().name != "CPU":
        # kineto shows CPU ranges again on the device, as gpu_user_annotation: they are no work of it
        return _DEVICE_KINDS.get(activity) if activity else _device_kind(raw)
    if activity == "overhead":
        return None
    return "call" if activity in {"cuda_runtime", "cuda_driver"} or _CALL.match(raw.name()) else "cpu"


def _device_kind(raw: Any) -> Kind | None:
    """The kind of a device event by its name, for releases of torch without activity types."""
    if raw.is_user_annotation():
        return None
    name = raw.name()
    return "copy" if name.startswith("Memcpy ") else "fill" if name.startswith("Memset ") else "kernel"
