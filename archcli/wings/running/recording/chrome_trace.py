"""One traced pass in Chrome's trace format, for Perfetto and chrome://tracing. No torch.

The viewers want the ranges of a thread nested: one that outlasts its parent is cut to the parent's end.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from archcli.wings.running.recording.events import Event, Kind
from archcli.wings.running.recording.walk import ENGINE

PROCESS, DEVICE = 1, 2
CATEGORIES: dict[Kind, str] = {
    "cpu": "torch",
    "call": "cuda",
    "kernel": "kernel",
    "copy": "memcpy",
    "fill": "memset",
}


def chrome_trace(
    events: Iterable[Event], owner: Callable[[int], str], prefix: str, name: str
) -> dict[str, Any]:
    """The trace: ranges of the architecture's operations around torch's, in microseconds.

    `owner` gives the path that made the autograd node of a sequence number, which names its backward.
    """
    threads: dict[tuple[int, int], list[Event]] = defaultdict(list)
    for event in events:
        threads[(DEVICE if event.on_device else PROCESS), event.thread].append(event)
    ranges = [
        entry
        for (process, _), thread in sorted(threads.items())
        for entry in _thread(process, thread, owner, prefix)
    ]
    first = min((entry["ts"] for entry in ranges), default=0)
    shown = [entry | {"ts": (entry["ts"] - first) / 1000, "dur": entry["dur"] / 1000} for entry in ranges]
    return {"displayTimeUnit": "ms", "otherData": {"model": name}, "traceEvents": [*_names(name), *shown]}


def _thread(
    process: int, ranges: list[Event], owner: Callable[[int], str], prefix: str
) -> Iterator[dict[str, Any]]:
    ranges.sort(key=lambda event: (event.start_ns, -event.end_ns, event.id))
    ends: list[int] = []
    for event in ranges:
        while ends and ends[-1] <= event.start_ns:
            ends.pop()
        end = min(event.end_ns, ends[-1]) if ends and process == PROCESS else event.end_ns
        ends.append(end)
        kind, name = _category(event, owner, prefix)
        # a thread's number may be an address of 64 bits, and viewers take a signed int of 32
        thread = event.thread % (1 << 31)
        yield {
            "ph": "X",
            "pid": process,
            "tid": thread,
            "ts": event.start_ns,
            "dur": end - event.start_ns,
            "name": name,
            "cat": kind,
        }


def _category(event: Event, owner: Callable[[int], str], prefix: str) -> tuple[str, str]:
    if event.name.startswith(prefix):
        return "operator", event.name[len(prefix) :]
    if event.name.startswith(ENGINE):
        path = owner(event.sequence)
        return "backward", f"{path} (backward)" if path else event.name.removeprefix(f"{ENGINE}: ")
    return CATEGORIES[event.kind], event.name


def _names(name: str) -> Iterator[dict[str, Any]]:
    for process, label in ((PROCESS, name), (DEVICE, f"{name}, device")):
        yield {"ph": "M", "pid": process, "tid": 0, "ts": 0, "name": "process_name", "args": {"name": label}}
