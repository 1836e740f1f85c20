"""Labels: while a profile listens, each operation's run is a named range in the trace, and says which autograd nodes it made.

Nothing of this exists in a model that is not listened to: `labelled` puts the labelling tapes in and takes them out.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from archcli.arith import Shape
from archcli.graph import Op, Tensor
from archcli.runtime.build import Node
from archcli.runtime.tape import ExpertTape, NodeTape

if TYPE_CHECKING:
    from torch import nn

PREFIX = "archcli:"
"""What a label starts with, so that the walk through a trace knows it from torch's own ranges."""


class Ran(NamedTuple):
    """An operation that ran: where, which, on inputs of what shapes. Held against the counted rows."""

    path: str
    op: Op
    inputs: tuple[Shape, ...]


class Regions:
    """What the labelled run of one pass leaves behind.

    `log` holds (autograd sequence number, path) at the start of each operation and (number, "") at its end: an autograd
    node belongs to the operation in whose range its own number lies. `ran`, `current` and `expert_of`, which expert each
    token of an operation within routed experts went to, are kept by the census only.
    """

    def __init__(self) -> None:
        self.log: list[tuple[int, str]] = []
        self.ran: dict[str, Ran] = {}
        self.expert_of: dict[str, torch.Tensor] = {}
        self.current = ""

    def owner(self, sequence: int) -> str:
        """The path of the operation that made the autograd node of that number; empty where none did."""
        place = bisect_right(self.log, sequence, key=lambda entry: entry[0])
        return self.log[place - 1][1] if place else ""


class LabelledTape(NodeTape):
    """Runs ops inside a range that carries their path."""

    __slots__ = ()

    def emit(self, op: Op, *xs: Tensor, group: str = "", trained: bool = True) -> Any:
        """Run the op; its path is in the trace, and its share of the sequence numbers in the log."""
        regions, path = place(self.node, op)
        regions.log.append((_next_number(), path))
        with torch._C._profiler._RecordFunctionFast(PREFIX + path):
            out = super().emit(op, *xs, group=group, trained=trained)
        regions.log.append((_next_number(), ""))
        return out


class LabelledExpertTape(LabelledTape, ExpertTape):
    """The same for stacked experts."""

    __slots__ = ()


class CensusTape(LabelledTape):
    """Also notes which op ran on what shapes, and which is running now."""

    __slots__ = ()

    def emit(self, op: Op, *xs: Tensor, group: str = "", trained: bool = True) -> Any:
        """Note the op, then run it."""
        regions, path = place(self.node, op)
        regions.ran[path] = Ran(path, op, tuple(x.shape for x in xs))
        regions.current = path
        out = super().emit(op, *xs, group=group, trained=trained)
        regions.current = ""
        return out


class CensusExpertTape(CensusTape, ExpertTape):
    """The same for stacked experts; which of them the tokens went to is noted, too, where they have weights."""

    __slots__ = ()

    def emit(self, op: Op, *xs: Tensor, group: str = "", trained: bool = True) -> Any:
        """Note the experts, then as any op."""
        regions, path = place(self.node, op)
        if self.node.part(op.name) is not None:
            regions.expert_of[path] = self.expert_of
        return super().emit(op, *xs, group=group, trained=trained)


TIMED = (LabelledTape, LabelledExpertTape)
CENSUS = (CensusTape, CensusExpertTape)


@contextmanager
def labelled(model: nn.Module, tapes: tuple[type[NodeTape], type[ExpertTape]] = TIMED) -> Iterator[Regions]:
    """Let every operation of the model run labelled; what they leave behind is yielded, and afterwards no trace of it is left."""
    regions = Regions()
    nodes = [(path, node) for path, node in model.named_modules() if isinstance(node, Node)]
    for path, node in nodes:
        vars(node).update(tapes=tapes, _path=path, _regions=regions)
    try:
        yield regions
    finally:
        for _, node in nodes:
            for name in ("tapes", "_path", "_regions"):
                vars(node).pop(name, None)


def place(node: Any, op: Op) -> tuple[Regions, str]:
    """The regions the node writes to, and the op's path."""
    return node._regions, f"{node._path}.{op.name}" if node._path else op.name


def _next_number() -> int:
    number: int = torch._C._autograd._get_sequence_nr()
    return number
