"""The census of a rank: what it sends to others, and FSDP2's operations apart from the architecture's."""

from __future__ import annotations

from typing import Any

import torch
from torch._C._distributed_c10d import _resolve_process_group
from torch.utils._pytree import tree_leaves

from archcli.recording.classes import COLLECTIVES
from archcli.recording.operations import REPLICAS, OpKey, Phase
from archcli.recording.walk import SHARDING, operation
from archcli.runtime.profile.census import Counting

BEGIN, END = "profiler::_record_function_enter_new", "profiler::_record_function_exit"
OF_SHARDING = ("c10d", "fsdp")
"""Namespaces of what FSDP2 runs; the copies beside are its own business."""


class RankCounting(Counting):
    """Counts a rank's operations, and the bytes that it sends by collectives."""

    ranges: tuple[str, ...] = ()

    def place_of(self, func: Any, args: Any) -> tuple[str, Phase] | None:
        """The path and phase that an operation counts for; None for FSDP2's copies."""
        name = func._schema.name
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
    return 2 * (number - 1) * sum(map(_bytes, _tensors(args))) // number


def _gathered(args: Any) -> int:
    """A rank's part goes round: t - 1 times."""
    return (_ranks_of(args) - 1) * _bytes(_smallest(args))


def _scattered(args: Any) -> int:
    """Partial sums go round: a part t - 1 times."""
    number = _ranks_of(args)
    return (number - 1) * _bytes(max(_tensors(args), key=_bytes)) // number


SENT = {"all_reduce": _all_reduced, "all_gather": _gathered, "reduce_scatter": _scattered}
"""Bytes that a rank sends by a call of a collective, over a ring, by the tensors that it is given."""


def _ranks_of(args: Any) -> int:
    """How many ranks take part, by the group among the arguments: its name, or the group itself."""
    for value in reversed(args):
        if isinstance(value, torch.ScriptObject) and "ProcessGroup" in str(value._type()):
            return int(torch.distributed.ProcessGroup.unbox(value).size())
    return int(_resolve_process_group(args[-1]).size())


def _tensors(args: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(args) if isinstance(leaf, torch.Tensor)]


def _smallest(args: Any) -> torch.Tensor:
    return min(_tensors(args), key=_bytes)


def _bytes(x: torch.Tensor) -> int:
    return x.numel() * x.element_size()
