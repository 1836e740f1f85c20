"""The paper's table as records of JSON, and its tables and notes in a report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from archcli.arith import to_bytes
from archcli.graph import OpClass
from archcli.measure.passes import Pass
from archcli.measure.report import Column, Report, Table
from archcli.wings.running.profile.fold import Bound, bound
from archcli.wings.running.recording.recording import Recording
from archcli.wings.serving.recorded.classes import FRAMEWORK, FUSED, RANDOM, UNATTRIBUTED, label_of
from ivanov.counting import (
    OUTSIDE,
    CountedOperator,
    OperatorGroup,
    OperatorTimes,
    operator_times,
    operators,
    within_layer,
)
from ivanov.table import LETTERS, MEASURED_ON, SOURCE, TIME_SHARES, WALL_S

Record = dict[str, Any]

ORDER = (*LETTERS, FUSED, OpClass.MOVEMENT, OpClass.ROUTING, RANDOM, OUTSIDE, FRAMEWORK, UNATTRIBUTED)
"""Classes in the order of the tables, the paper's three first."""


def ivanov_table(
    report: Report, operators: Sequence[CountedOperator], times: OperatorTimes, recording: Recording
) -> Record:
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
) -> list[Record]:
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


def _untimed(operator: CountedOperator) -> Record:
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


def _classes(report: Report, operators: Sequence[CountedOperator], times: OperatorTimes) -> dict[str, Record]:
    """The paper's three classes, then all other time; times add up to the plain wall time."""
    wall, flops, words = report.totals["wall_s"], _flops(operators) or 1, _words(operators) or 1
    rest = {str(name): report.totals["by_class"][name]["seconds"] for name in (FRAMEWORK, UNATTRIBUTED)}
    seconds = {**times.by_class, **rest}
    three = sum(seconds.get(op_class, 0.0) for op_class in LETTERS)
    records: dict[str, Record] = {}
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


def _executed(recording: Recording) -> list[Record]:
    """Torch operations executed within layers, by class.

    FLOPs are None where a fused kernel is among the operations, as its own are unknown.
    """
    records: dict[str, Record] = {}
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


def _nothing_executed(op_class: str) -> Record:
    return {"class": op_class, "operations": 0, "flops": 0, "flop_share": None, "read": 0, "written": 0}


def _sum_or_none(sum_so_far: int | None, flops: int | None) -> int | None:
    return None if sum_so_far is None or flops is None else sum_so_far + flops


CONVENTION = (
    "Words are elements; a class's words are read and written ones, a dropout's mask among them. Per "
    "element: softmax 6 with scale and dropout, its gradient 5; LayerNorm 7, its gradients 9 and 4; ReLU 0; "
    "all else 1."
)
SIZES = {"phase": "train", "batch_size": 8, "seq_len": 512}
BY_CLASS = (
    Column("class", "class"),
    Column("flops", "GFLOP", "gflop", minor=True),
    Column("flop_share", "of FLOP", "fine_share"),
    Column("words", "1e6 words", "millions", minor=True),
    Column("word_share", "of words", "share"),
    Column("seconds", "time", "seconds"),
    Column("time_share", "of wall", "share"),
    Column("share_of_three", "of T, N, E", "share"),
    Column("paper_time_share", "paper, V100", "share"),
)
BY_OPERATOR = (
    Column("operator", "operator"),
    Column("letter", "class"),
    Column("flops", "GFLOP", "gflop"),
    Column("read", "in", "millions"),
    Column("written", "out", "millions"),
    Column("time", "time", unit_key="time_unit"),
    Column("roof", "roof", minor=True),
    Column("roof_share", "of it", "share", minor=True),
)
EXECUTED = (
    Column("class", "class"),
    Column("operations", "operations", "number"),
    Column("flops", "GFLOP", "gflop"),
    Column("flop_share", "of FLOP", "fine_share"),
    Column("read", "in", "millions"),
    Column("written", "out", "millions"),
)


def with_table(report: Report, counted: Pass, recording: Recording) -> Report:
    """The report of a profile with the paper's table in place of its own, in JSON as `totals.ivanov`."""
    counted_operators = operators(counted)
    times = operator_times(counted_operators, recording)
    table = ivanov_table(report, counted_operators, times, recording)
    totals = {**report.totals, "ivanov": table}
    # the last table says how far to trust the profile
    quality = report.tables[-1:]
    return replace(
        report,
        convention=f"{report.convention} {CONVENTION}",
        totals=totals,
        tables=(*ivanov_tables(totals), *quality),
        notes=(*_notes(report, times), *report.notes),
    )


def ivanov_tables(totals: Mapping[str, Any]) -> Iterator[Table]:
    """Tables of the paper's classes and operators, and what was executed, from a report's totals."""
    table, title = totals["ivanov"], "Ivanov et al. 2021, Table 1"
    yield _class_table(title, totals)
    # the last two are the roof and what was reached of it
    columns = BY_OPERATOR if totals["ceilings"] is not None else BY_OPERATOR[:-2]
    for phase in ("forward", "backward"):
        lines = [_operator_line(line) for line in table["operators"] if line["phase"] == phase]
        if lines:
            yield Table(f"{title}: {phase}, in 1e6 words", columns, lines)
    executed = [_class_line(record) for record in table["executed"]]
    yield Table("As executed, operation by operation of torch", EXECUTED, executed)


def _class_table(title: str, totals: Mapping[str, Any]) -> Table:
    classes = [{"class": name, **record} for name, record in totals["ivanov"]["classes"].items()]
    whole = {"class": "plain wall", "seconds": totals["wall_s"], "time_share": 1.0}
    for key in ("flops", "flop_share", "words", "word_share"):
        whole[key] = sum(record.get(key) or 0 for record in classes)
    warning = "" if totals["reliable"] else ": NOT RELIABLE, see the notes"
    return Table(f"{title}: by class{warning}", BY_CLASS, [_class_line(record) for record in classes], whole)


def _class_line(record: Mapping[str, Any]) -> dict[str, Any]:
    letter, label = LETTERS.get(record["class"]), label_of(record["class"])
    return {**record, "class": f"{letter} {label}" if letter else label}


def _operator_line(line: Mapping[str, Any]) -> dict[str, Any]:
    together = line["timed_with"]
    return {
        **line,
        "read": line["words_read"],
        "written": line["words_written"],
        "letter": LETTERS.get(line["class"], line["class"]),
        "time": f"with {together}" if together else line["seconds"],
        "time_unit": "text" if together else "seconds",
    }


def _notes(report: Report, times: OperatorTimes) -> Iterator[str]:
    paper_ms = f"{WALL_S * 1e3:.2f} ms"
    yield f"{SOURCE}. Its shares of the time are of its three classes on a {MEASURED_ON}, {paper_ms}."
    if any(report.inputs[key] != size for key, size in SIZES.items()):
        sizes = ", ".join(f"{key} {size}" for key, size in SIZES.items())
        yield f"Not the paper's sizes, which are {sizes}: its shares are of those."
    yield (
        "An operator with another is measured together with it: in one kernel, or in operations that torch "
        "gives one name."
    )
    if times.by_class.get(RANDOM):
        yield (
            "Random numbers are drawn in operations of their own here; there, within the kernels of softmax "
            "and dropout."
        )
    if FUSED in times.by_class:
        yield (
            "Fused attention is no operator of the paper: --attention eager runs the three of which it is "
            "made."
        )
