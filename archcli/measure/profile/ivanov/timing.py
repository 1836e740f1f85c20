"""What was measured of the paper's operators. Those that share a kernel, or an operation of torch, share one time, which is never split.

A linear layer adds its bias within the product; the products for both its gradients have one name; so have those of attention. Random
numbers, copies and whatever ran outside of the layers are apart.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from archcli.graph import OpClass
from archcli.measure.profile.ivanov.counting import Operator, within_layer
from archcli.recording.classes import FRAMEWORK, FUSED

if TYPE_CHECKING:
    from archcli.recording.recording import Recording

OUTSIDE = "outside of the layer"


class Key(NamedTuple):
    """A row within its layer, the phase, and the class of what torch executed there."""

    path: str
    phase: str
    op_class: str


SUMS = Key("", "sums", OpClass.ELEMENTWISE)
"""Additions of gradients that meet, wherever they did."""


class Group(NamedTuple):
    """Operators that were measured together, by their places in the table, and for how long; None for what took no time of its own."""

    members: tuple[int, ...]
    seconds: float | None


class Times(NamedTuple):
    """Groups of operators; and seconds by class: of the layer's arithmetic, of what else the layer did, and of what ran outside of it."""

    groups: tuple[Group, ...]
    by_class: Mapping[str, float]


def times(operators: Sequence[Operator], recording: Recording) -> Times:
    """Give every time to the operators it belongs to."""
    spent: dict[Key, float] = defaultdict(float)
    by_class: dict[str, float] = defaultdict(float)
    for timed in recording.timed:
        inside, sums = within_layer(timed.path), timed.phase == "sums"
        if timed.op_class != FRAMEWORK:
            by_class[timed.op_class if inside or sums else OUTSIDE] += timed.seconds
        if inside or sums:
            spent[SUMS if sums else Key(inside, timed.phase, timed.op_class)] += timed.seconds
    return Times(_groups([_keys(operator, spent) for operator in operators], spent), dict(by_class))


def _keys(operator: Operator, spent: Mapping[Key, float]) -> set[Key]:
    """The times an operator has a part in: those of its class in its rows, else of the product or the kernel that took it in."""
    found = {SUMS} & spent.keys() if operator.line.meets else set()
    for path in operator.line.paths:
        classes = (operator.op_class, OpClass.CONTRACTION, FUSED)
        found |= set([key for each in classes if (key := Key(path, operator.line.phase, each)) in spent][:1])
    return found


def _groups(keys: Sequence[set[Key]], spent: Mapping[Key, float]) -> tuple[Group, ...]:
    """Operators that have a part in a common time, joined."""
    joined: list[tuple[set[int], set[Key]]] = []
    for i, own in enumerate(keys):
        touched = [group for group in joined if group[1] & own]
        members, both = (
            {i}.union(*(group[0] for group in touched)),
            own.union(*(group[1] for group in touched)),
        )
        joined = [*(group for group in joined if group not in touched), (members, both)]
    found = (
        Group(tuple(sorted(members)), sum(spent[key] for key in both) if both else None)
        for members, both in joined
    )
    return tuple(sorted(found))
