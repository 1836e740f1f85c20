"""The paper's table as records of JSON: its classes, its operators, and what torch executed."""

from __future__ import annotations

from collections.abc import Sequence

from archcli.arith import to_bytes
from archcli.graph import OpClass
from archcli.measure.profile.ivanov.counting import (
    OUTSIDE,
    CountedOperator,
    OperatorGroup,
    OperatorTimes,
    within_layer,
)
from archcli.measure.profile.ivanov.table import LETTERS, MEASURED_ON, SOURCE, TIME_SHARES, WALL_S
from archcli.measure.profile.roofline import Bound, bound
from archcli.measure.profile.schema.records import ExecutedClass, IvanovClass, IvanovOperator, IvanovTable
from archcli.measure.report import Report
from archcli.recording.classes import FRAMEWORK, FUSED, RANDOM, UNATTRIBUTED
from archcli.recording.recording import Recording

ORDER = (*LETTERS, FUSED, OpClass.MOVEMENT, OpClass.ROUTING, RANDOM, OUTSIDE, FRAMEWORK, UNATTRIBUTED)
"""Classes in the order of the tables, the paper's three first."""


def ivanov_table(
    report: Report, operators: Sequence[CountedOperator], times: OperatorTimes, recording: Recording
) -> IvanovTable:
    """The records of a profile's report."""
    return {
        "source": SOURCE,
        "paper": {
            "measured_on": MEASURED_ON,
            "wall_s": WALL_S,
            "time_shares": {str(op_class): share for op_class, share in TIME_SHARES.items()},
        },
        "classes": _classes(report, operators, times),
        "operators": _operators(report, operators, times.groups),
        "executed": _executed(recording),
    }


def _operators(
    report: Report, operators: Sequence[CountedOperator], groups: Sequence[OperatorGroup]
) -> list[IvanovOperator]:
    """A record per operator; of operators timed together the first has their joint time and bound."""
    lines = [_untimed(operator) for operator in operators]
    for group in groups:
        first, *rest = group.members
        reached = _bound(report, [operators[i] for i in group.members], group.seconds)
        lines[first]["seconds"] = group.seconds
        lines[first]["roof"], lines[first]["roof_share"] = reached or (None, None)
        for i in rest:
            lines[i]["timed_with"] = operators[first].line.name
    return lines


def _untimed(operator: CountedOperator) -> IvanovOperator:
    return {
        "operator": operator.line.name,
        "phase": operator.line.phase,
        "class": str(operator.op_class),
        "flops": operator.flops,
        "words_read": operator.read,
        "words_written": operator.written,
        "seconds": None,
        "timed_with": None,
        "roof": None,
        "roof_share": None,
    }


def _bound(report: Report, members: Sequence[CountedOperator], seconds: float | None) -> Bound | None:
    moved = int(to_bytes(_words(members), report.inputs["dtype"]))
    return bound(_flops(members), moved, seconds or 0.0, report.totals["ceilings"])


def _flops(operators: Sequence[CountedOperator]) -> int:
    return sum(operator.flops for operator in operators)


def _words(operators: Sequence[CountedOperator]) -> int:
    return sum(operator.read + operator.written for operator in operators)


def _classes(
    report: Report, operators: Sequence[CountedOperator], times: OperatorTimes
) -> dict[str, IvanovClass]:
    """The paper's three classes, then all other time; times add up to the plain wall time."""
    wall, flops, words = report.totals["wall_s"], _flops(operators) or 1, _words(operators) or 1
    rest = {str(name): report.totals["by_class"][name]["seconds"] for name in (FRAMEWORK, UNATTRIBUTED)}
    seconds = {**times.by_class, **rest}
    three = sum(seconds.get(op_class, 0.0) for op_class in LETTERS)
    records: dict[str, IvanovClass] = {}
    for op_class in LETTERS:
        members = [operator for operator in operators if operator.op_class is op_class]
        spent = seconds.get(op_class, 0.0)
        records[str(op_class)] = {
            "flops": _flops(members),
            "words": _words(members),
            "seconds": spent,
            "flop_share": _flops(members) / flops,
            "word_share": _words(members) / words,
            "time_share": spent / wall,
            # a fused kernel holds products and softmax, and its time is of neither class
            "share_of_three": spent / three if three and FUSED not in seconds else None,
            "paper_time_share": TIME_SHARES[op_class],
        }
    for name in map(str, ORDER[len(LETTERS) :]):
        if name in seconds:
            records[name] = {"seconds": seconds[name], "time_share": seconds[name] / wall}
    return records


def _executed(recording: Recording) -> list[ExecutedClass]:
    """Torch operations executed within layers, by class.

    FLOPs are None where a fused kernel is among the operations, as its own are unknown.
    """
    records: dict[str, ExecutedClass] = {}
    for op in recording.census:
        # gradients that meet are added up outside of any row; the paper has them within the layer
        if not within_layer(op.path) and op.phase != "sums":
            continue
        record = records.setdefault(op.op_class, _nothing_executed(op.op_class))
        record["operations"] += op.calls
        record["flops"] = _sum_or_none(record["flops"], op.flops)
        record["read"] += op.read
        record["written"] += op.written
    whole: int | None = 0
    for record in records.values():
        whole = _sum_or_none(whole, record["flops"])
    for record in records.values():
        record["flop_share"] = None if whole is None else (record["flops"] or 0) / (whole or 1)
    return [records[name] for name in map(str, ORDER) if name in records]


def _nothing_executed(op_class: str) -> ExecutedClass:
    return {"class": op_class, "operations": 0, "flops": 0, "flop_share": None, "read": 0, "written": 0}


def _sum_or_none(sum_so_far: int | None, flops: int | None) -> int | None:
    return None if sum_so_far is None or flops is None else sum_so_far + flops
