"""The census of a rank: what it sends to others, and how long that was under way in a trace.

Collectives in a trace: how long each was under way, and how much of that no computing hid. On a GPU a
collective is under way while its kernel runs; on a CPU from its call until gloo's thread has done with it,
or until the rank has waited for it. Hidden is the time in which the rank's own operations ran, on a GPU its
other kernels.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch._C._distributed_c10d import _resolve_process_group

from archcli.wings.running.recording.device import Span
from archcli.wings.running.recording.events import Event
from archcli.wings.running.recording.walk import ENGINE, SHARDING, operation
from archcli.wings.running.runtime.memory.storages import tensors_in
from archcli.wings.running.runtime.profile.census import Counting
from archcli.wings.running.runtime.profile.record import PREFIX
from archcli.wings.serving.recorded.classes import COLLECTIVES, WAIT
from archcli.wings.serving.recorded.operations import REPLICAS, OpKey, Phase

BEGIN, END = "profiler::_record_function_enter_new", "profiler::_record_function_exit"
OF_SHARDING = ("c10d", "fsdp")
"""Namespaces of what FSDP2 runs; the copies beside are its own business."""


class RankCounting(Counting):
    """Counts a rank's operations, and the bytes that it sends by collectives."""

    ranges: tuple[str, ...] = ()

    def place_of(self, func: Any, args: Any) -> tuple[str, Phase] | None:
        """The path and phase that an operation counts for; None for FSDP2's copies."""
        name = func._schema.name
        # FSDP2 opens its ranges by record_function, whose operations pass through here
        if name.startswith("profiler::"):
            self._enter_or_leave(name, args)
            return None
        place = self._place(name)
        if place is not None and operation(name) in COLLECTIVES:
            key = OpKey(*place, operation(name))
            self.sent[key] += SENT[COLLECTIVES[key.name]](args)
        return place

    def _place(self, name: str) -> tuple[str, Phase] | None:
        if not any(outer.startswith(SHARDING) for outer in self.ranges):
            return self.log.place()
        return (REPLICAS, "forward") if name.partition("::")[0] in OF_SHARDING else None

    def _enter_or_leave(self, name: str, args: Any) -> None:
        if name == BEGIN:
            self.ranges = (*self.ranges, args[0])
        elif name == END:
            self.ranges = self.ranges[:-1]


def _all_reduced(args: Any) -> int:
    """A ring scatters the sums and gathers them: 2 (t - 1) / t of the tensor."""
    number = _ranks_of(args)
    return 2 * (number - 1) * sum(map(_bytes, tensors_in(args))) // number


def _gathered(args: Any) -> int:
    """A rank's part goes round: t - 1 times."""
    # some calls are given the output as well, which is the whole
    return (_ranks_of(args) - 1) * _bytes(_smallest(args))


def _scattered(args: Any) -> int:
    """Partial sums go round: a part t - 1 times."""
    number = _ranks_of(args)
    return (number - 1) * _bytes(max(tensors_in(args), key=_bytes)) // number


SENT = {"all_reduce": _all_reduced, "all_gather": _gathered, "reduce_scatter": _scattered}
"""Bytes that a rank sends by a call of a collective, over a ring, by the tensors that it is given."""


def _ranks_of(args: Any) -> int:
    """How many ranks take part, by the group among the arguments: its name, or the group itself."""
    for value in reversed(args):
        if isinstance(value, torch.ScriptObject) and "ProcessGroup" in str(value._type()):
            return int(torch.distributed.ProcessGroup.unbox(value).size())
    return int(_resolve_process_group(args[-1]).size())


def _smallest(args: Any) -> torch.Tensor:
    return min(tensors_in(args), key=_bytes)


def _bytes(x: torch.Tensor) -> int:
    return x.numel() * x.element_size()


BARRIER = "gloo:barrier"
"""With which ranks begin a pass together; it is none of the pass."""
GLOO, NCCL, CALLED, FUNCTIONAL = "gloo:", "nccl", "c10d::", "_c10d_functional::"
KERNELS = {"allreduce": "all_reduce", "allgather": "all_gather", "reducescatter": "reduce_scatter"}
"""Collectives by what the names of NCCL's kernels hold."""


class UnderWay(NamedTuple):
    """A collective of one pass: when it was under way, the part not hidden, and whether a row called it."""

    collective: str
    span: Span
    exposed_ns: int
    of_row: bool

    @property
    def ns(self) -> int:
        """Nanoseconds under way."""
        return self.span.end_ns - self.span.start_ns


def under_way(events: Sequence[Event], computing: Container[str], *, device: bool) -> list[UnderWay]:
    """Every collective of a traced pass, in order; `computing` are names of operations that hide one."""
    transfers = sorted((event for event in events if _is_transfer(event, device=device)), key=_start)
    called = sorted((event for event in events if _is_call(event)), key=_start)
    # paired by order, which means something only where there are as many of both
    calls: list[Event | None] = list(called) if len(called) == len(transfers) else [None] * len(transfers)
    waits = _waits(events)
    busy = joined_spans(_computing(events, computing, device=device))
    collectives = []
    for transfer, call in zip(transfers, calls, strict=True):
        waited = next((span for span in waits if call and span.start_ns <= call.start_ns < span.end_ns), None)
        span = Span(transfer.start_ns, transfer.end_ns)
        if call is not None and not device:
            span = waited or Span(call.start_ns, transfer.end_ns)
        exposed = span.end_ns - span.start_ns - sum(_overlap(span, work) for work in busy)
        collectives.append(UnderWay(_collective(transfer, call), span, exposed, waited is not None))
    return collectives


def _waits(events: Sequence[Event]) -> list[Span]:
    """From the calls of operations that wait at once until they have waited: those of the model's rows."""
    called = sorted((event for event in events if event.name.startswith(FUNCTIONAL)), key=_start)
    pairs = ((call, wait) for call, wait in pairwise(called) if operation(wait.name) == WAIT)
    return [Span(call.start_ns, wait.end_ns) for call, wait in pairs]


def joined_spans(events: Iterable[Event]) -> list[Span]:
    """The intervals in which at least one event ran, in order."""
    spans: list[Span] = []
    for event in sorted(events, key=_start):
        if spans and event.start_ns <= spans[-1].end_ns:
            spans[-1] = Span(spans[-1].start_ns, max(event.end_ns, spans[-1].end_ns))
        else:
            spans.append(Span(event.start_ns, event.end_ns))
    return spans


def _is_transfer(event: Event, *, device: bool) -> bool:
    if device:
        return event.kind == "kernel" and NCCL in event.name.lower()
    return event.name.startswith(GLOO) and event.name != BARRIER


def _is_call(event: Event) -> bool:
    return event.name.startswith(CALLED) and operation(event.name) in COLLECTIVES


def _computing(events: Sequence[Event], computing: Container[str], *, device: bool) -> Iterable[Event]:
    """The kernels of a GPU but NCCL's; on a CPU the operations of threads that run the model's."""
    if device:
        return [event for event in events if event.on_device and NCCL not in event.name.lower()]
    threads = {event.thread for event in events if event.name.startswith((PREFIX, ENGINE))}
    of_threads = (event for event in events if event.kind == "cpu" and event.thread in threads)
    return [event for event in of_threads if operation(event.name) in computing]


def _collective(span: Event, call: Event | None) -> str:
    """Which collective it is, by the call: gloo scatters sums by an all-reduce."""
    if call is not None:
        return COLLECTIVES[operation(call.name)]
    name = span.name.removeprefix(GLOO).lower()
    return next((kind for part, kind in KERNELS.items() if part in name.replace("_", "")), name)


def _overlap(first: Span, second: Span) -> int:
    return max(0, min(first.end_ns, second.end_ns) - max(first.start_ns, second.start_ns))


def _start(event: Event) -> int:
    return event.start_ns
