"""Collectives of tensor, sequence and expert parallelism, as the rows of a rank's share state them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from archcli.arith import Number
from archcli.graph import Row
from archcli.measure.memory.plan import Plan
from archcli.measure.predict.communication.collective import Collective
from archcli.measure.predict.communication.groups import expert_group, tensor_group


def of_rows(
    rows: Iterable[tuple[Row, Number]], plan: Plan, width: Number, repeated: frozenset[str] | None
) -> Iterator[Collective]:
    """The collectives of rows that occur so often; `width` are the bytes of an element.

    `repeated` are the paths of rows that the backward runs again; None where there is no backward. None of
    them can be covered: the next operation reads the result.
    """
    for row, times in rows:
        op = row.op
        if not op.exchanges:
            continue
        sent, back = op.sent(*row.inputs), op.sent_back(*row.inputs)
        ahead = times * (2 if repeated is not None and row.path in repeated else 1)
        if op.collective and sent:
            yield _of(op.collective, plan, ahead, ahead * sent * width)
        if repeated is not None and op.collective_back and back:
            yield _of(op.collective_back, plan, times, times * back * width, "backward")


def _of(name: Any, plan: Plan, times: Number, sent: Number, stage: Any = "forward") -> Collective:
    routed = name == "all_to_all"
    group = expert_group(plan) if routed else tensor_group(plan)
    return Collective(name, "experts" if routed else "tensor", group, sent, times, stage)
