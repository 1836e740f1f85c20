"""Collectives of tensor, sequence and expert parallelism, as the rows of a rank's share state them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from archcli.arith import Number
from archcli.graph import Row
from archcli.graph.kept import Call, Execution, In
from archcli.measure.memory.plan import Plan
from archcli.measure.predict.communication.collective import Collective
from archcli.measure.predict.communication.groups import expert_group, tensor_group
from archcli.ops.communicate import Communication


def of_rows(
    rows: Iterable[tuple[Row, Number]], plan: Plan, width: Number, repeated: frozenset[str] | None
) -> Iterator[Collective]:
    """The collectives of rows that occur so often; `width` are the bytes of an element.

    `repeated` are the paths of rows that the backward runs again; None where there is no backward. None of
    them can be covered: the next operation reads the result.
    """
    for row, times in rows:
        op = row.op
        if not isinstance(op, Communication):  # no other op knows of ranks
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


def repeated_paths(
    rows: Sequence[Row], rule: Callable[[str], bool] | None, execution: Execution
) -> frozenset[str]:
    """Paths of the rows that a backward runs again, by what is recomputed.

    As in torch's checkpointing what comes behind the last operation that keeps something is not run again,
    nor is that one itself where it keeps its inputs alone: autograd saves them before it runs.
    """
    if rule is None:
        return frozenset()
    regions: dict[str, list[Row]] = {}
    for row in rows:
        region = _region(row.path, rule)
        if region is not None:
            regions.setdefault(region, []).append(row)
    return frozenset(row.path for region in regions.values() for row in _needed(region, execution))


def _region(path: str, rule: Callable[[str], bool]) -> str | None:
    """The outermost module, or the operation itself, that is recomputed and has this path."""
    steps = path.split(".")
    above = (".".join(steps[:n]) for n in range(1, len(steps) + 1))
    return next((module for module in above if rule(module)), None)


def _needed(rows: list[Row], execution: Execution) -> list[Row]:
    """Rows up to the last that keeps something, and that one unless it keeps its inputs alone."""
    keeping = [number for number, row in enumerate(rows) if not row.op.keeps_nothing]
    if not keeping:
        return []
    last = keeping[-1]
    return rows[: last + (0 if _keeps_inputs_alone(rows[last], execution) else 1)]


def _keeps_inputs_alone(row: Row, execution: Execution) -> bool:
    n = len(row.inputs)
    experts = row.experts.n_experts if row.experts else None
    call = Call(execution, (True,) * n, (execution.width,) * n, row.trained, experts)
    try:
        return all(isinstance(kept, In) for kept in row.op.kept(call, *row.inputs))
    except NotImplementedError:
        return False
