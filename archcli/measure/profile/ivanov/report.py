"""The paper's table in a report: its operators, and shares by class compared with the paper's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from archcli.measure.passes import Pass
from archcli.measure.profile.ivanov.counting import OperatorTimes, operator_times, operators
from archcli.measure.profile.ivanov.records import ivanov_table
from archcli.measure.profile.ivanov.table import LETTERS, MEASURED_ON, SOURCE, WALL_S
from archcli.measure.report import Column, Report, Table
from archcli.recording.classes import FUSED, RANDOM, label_of
from archcli.recording.recording import Recording

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
