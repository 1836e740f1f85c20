"""Measured times of the paper's operators.

Operators that share a kernel or a torch operation share one time, which is never split: a linear layer adds
its bias within the product, and the products of both its gradients have one name, as have those of attention.
Random numbers, copies and what ran outside of the layers are apart.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from archcli.graph import OpClass
from archcli.measure.profile.ivanov.counting import CountedOperator, within_layer
from archcli.recording.classes import FRAMEWORK, FUSED
from archcli.recording.operations import ClassKey
from archcli.recording.recording import Recording

OUTSIDE = "outside of the layer"
SUMS = ClassKey("", "sums", OpClass.ELEMENTWISE)
"""Additions that accumulate gradients, at whichever row."""


class OperatorGroup(NamedTuple):
    """Operators that were measured together, by their places in the table.

    Seconds are None where they took no time of their own.
    """

    members: tuple[int, ...]
    seconds: float | None


class OperatorTimes(NamedTuple):
    """Seconds of groups of operators, and by class: within the layers, and outside of them."""

    groups: tuple[OperatorGroup, ...]
    by_class: Mapping[str, float]


def operator_times(operators: Sequence[CountedOperator], recording: Recording) -> OperatorTimes:
    """Assign every measured time to the operators it belongs to."""
    spent: dict[ClassKey, float] = defaultdict(float)
    by_class: dict[str, float] = defaultdict(float)
    for timed in recording.timed:
        inside, sums = within_layer(timed.path), timed.phase == "sums"
        if timed.op_class != FRAMEWORK:
            by_class[timed.op_class if inside or sums else OUTSIDE] += timed.seconds
        if inside or sums:
            spent[SUMS if sums else ClassKey(inside, timed.phase, timed.op_class)] += timed.seconds
    keys = [_keys(operator, spent) for operator in operators]
    return OperatorTimes(_groups(keys, spent), dict(by_class))


def _keys(operator: CountedOperator, spent: Mapping[ClassKey, float]) -> set[ClassKey]:
    """Keys of the measured times that include an operator, at most one per row.

    That is the time in its class, else that of the product or the kernel that took it in.
    """
    keys = {SUMS} & spent.keys() if operator.line.meets else set()
    for path in operator.line.paths:
        classes = (operator.op_class, OpClass.CONTRACTION, FUSED)
        candidates = (ClassKey(path, operator.line.phase, op_class) for op_class in classes)
        keys |= set([key for key in candidates if key in spent][:1])
    return keys


def _groups(keys: Sequence[set[ClassKey]], spent: Mapping[ClassKey, float]) -> tuple[OperatorGroup, ...]:
    """Groups of operators that share a measured time."""
    joined: list[tuple[set[int], set[ClassKey]]] = []
    for i, times in enumerate(keys):
        touching = [group for group in joined if group[1] & times]
        members = {i}.union(*(group[0] for group in touching))
        common = times.union(*(group[1] for group in touching))
        joined = [*(group for group in joined if group not in touching), (members, common)]
    groups = (
        OperatorGroup(tuple(sorted(members)), sum(spent[key] for key in sorted(common)) if common else None)
        for members, common in joined
    )
    return tuple(sorted(groups))
