"""Rows that a backward runs again: those of what is recomputed, but for what nobody needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from archcli.graph import Row
from archcli.graph.kept import Call, Execution, In


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
