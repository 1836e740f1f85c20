"""Labels: while a profile listens, each operation's run is a named range in the trace, and says which autograd nodes it made.

Nothing of this exists in a model that is not listened to: `labelled` puts the labelling tapes in and takes them out.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from archcli.graph import Op
from archcli.recording.operations import OpInstance
from archcli.runtime.model.build import Node
from archcli.runtime.model.tape import Listening, Run

if TYPE_CHECKING:
    from torch import nn

    from archcli.runtime.model.leaves import Assignment

PREFIX = "archcli:"
"""What a label starts with, so that the walk through a trace knows it from torch's own ranges."""


class Regions:
    """What the labelled run of one pass leaves behind.

    `log` holds (autograd sequence number, path) at the start of each operation and (number, "") at its end: an autograd
    node belongs to the operation in whose range its own number lies. `ran`, `current` and `expert_of`, which expert each
    token of an operation within routed experts went to, are kept by the census only.
    """

    def __init__(self) -> None:
        self.log: list[tuple[int, str]] = []
        self.ran: dict[str, OpInstance] = {}
        self.expert_of: dict[str, torch.Tensor] = {}
        self.current = ""

    def owner(self, sequence: int) -> str:
        """The path of the operation that made the autograd node of that number; empty where none did."""
        place = bisect_right(self.log, sequence, key=lambda entry: entry[0])
        return self.log[place - 1][1] if place else ""


def label(_: Op, path: str, run: Run) -> Run:
    """A run inside a range that carries its path, and whose share of the sequence numbers is in the log."""
    name = PREFIX + path

    def heard(node: Node, values: list[Any], routed: Assignment | None) -> Any:
        if not torch.is_grad_enabled():
            with torch._C._profiler._RecordFunctionFast(name):
                return run(node, values, routed)
        log = regions_of(node).log
        log.append((_next_number(), path))
        with torch._C._profiler._RecordFunctionFast(name):
            out = run(node, values, routed)
        log.append((_next_number(), ""))
        return out

    return heard


def census(op: Op, path: str, run: Run) -> Run:
    """A labelled run of which is also noted what runs, and on what shapes; of experts with weights, where the tokens go."""
    labelled_run = label(op, path, run)

    def heard(node: Node, values: list[Any], routed: Assignment | None) -> Any:
        regions = regions_of(node)
        regions.ran[path] = OpInstance(path, op, tuple(tuple(value.shape) for value in values))
        if routed is not None and node.part(op.name) is not None:
            regions.expert_of[path] = routed.expert_of
        regions.current = path
        out = labelled_run(node, values, routed)
        regions.current = ""
        return out

    return heard


@contextmanager
def labelled(model: nn.Module, wrap: Callable[[Op, str, Run], Run] = label) -> Iterator[Regions]:
    """Let every operation of the model run labelled; what they leave behind is yielded, and afterwards none is labelled."""
    regions = Regions()
    nodes = [(path, node) for path, node in model.named_modules() if isinstance(node, Node)]
    for path, node in nodes:
        vars(node).update(listening=Listening(wrap, path), _regions=regions)
    try:
        yield regions
    finally:
        for _, node in nodes:
            for name in ("listening", "_regions"):
                vars(node).pop(name, None)


def regions_of(node: Any) -> Regions:
    """The regions the node writes to."""
    regions: Regions = node._regions
    return regions


def _next_number() -> int:
    number: int = torch._C._autograd._get_sequence_nr()
    return number
