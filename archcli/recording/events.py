"""Reads kineto's events: what each is, when it ran, and what started it. No torch here, only the objects that it hands out.

Two numberings meet in a trace. A range on the CPU has a number of its own, from 1 in each trace. A call of CUDA and what it
made the device do share one of CUPTI's, from 1 in each process, and name the range they were called in by that one's
number. The same number may occur in both, so that none is looked up without knowing of which kind it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

Kind = Literal["cpu", "call", "kernel", "copy", "fill"]
"""A range on the CPU; a call of CUDA from there; on the device a kernel, a copy between memories, and filling memory with a byte."""
TIMED = "archcli pass"
"""The range that a timed pass is on a device: all that belongs to it begins within."""

_CALL = re.compile(r"(cuda|cu|hip)[A-Z]")
_LAUNCH = re.compile(
    r"(cuda|cu|hip)(Launch(Cooperative)?Kernel|GraphLaunch|(Ext)?ModuleLaunch|Memcpy|Memset)"
)
_DEVICE_KINDS: dict[str, Kind] = {"kernel": "kernel", "gpu_memcpy": "copy", "gpu_memset": "fill"}


class Event(NamedTuple):
    """A range of a trace. On the device `thread` is the stream. `launched_by` is the number of the CPU range it comes from, 0 for none."""

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
        """Whether it took the device's time."""
        return self.kind in {"kernel", "copy", "fill"}

    @property
    def launches(self) -> bool:
        """Whether it is a call that gives the device something to do: a kernel, a graph of them, a copy, a fill."""
        return self.kind == "call" and _LAUNCH.match(self.name) is not None

    @property
    def waits(self) -> bool:
        """Whether it is a call that returns when the device has got somewhere: of a device, a stream, an event."""
        return self.kind == "call" and self.name.endswith("Synchronize")

    @property
    def crosses(self) -> bool:
        """Whether it is a copy from or to other memory than the device's own, for which nothing of the device computes."""
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
    """None of what took no time of its own: the shadow that a range throws on the device, the tracer's own overhead."""
    said = raw.activity_type() if hasattr(raw, "activity_type") else ""
    if raw.device_type().name != "CPU":
        return _DEVICE_KINDS.get(said) if said else _device_kind(raw)
    if said == "overhead":
        return None
    return "call" if said in {"cuda_runtime", "cuda_driver"} or _CALL.match(raw.name()) else "cpu"


def _device_kind(raw: Any) -> Kind | None:
    """By its name, as older releases of torch do not say it."""
    if raw.is_user_annotation():
        return None
    name = raw.name()
    return "copy" if name.startswith("Memcpy ") else "fill" if name.startswith("Memset ") else "kernel"
