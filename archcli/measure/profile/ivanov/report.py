"""The paper's table in a report: FLOP, word and time shares by class beside its own, every operator, and what was executed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from archcli.arith import to_bytes
from archcli.measure.passes import Pass
from archcli.measure.profile.ivanov.counting import Operator, operators, within_layer
from archcli.measure.profile.ivanov.table import LETTERS, MEASURED_ON, SOURCE, TIME_SHARES, WALL_S
from archcli.measure.profile.ivanov.timing import OUTSIDE, Group, Times, times
from archcli.measure.profile.roofline import bound
from archcli.measure.profile.schema.ivanov import Executed, Ivanov, IvanovClass, IvanovOperator
from archcli.measure.report import Column, Report, Table
from archcli.recording.classes import FRAMEWORK, FUSED, RANDOM, UNATTRIBUTED

if TYPE_CHECKING:
    from archcli.recording.recording import Recording

Record = dict[str, Any]
CONVENTION = (
    "Words are elements; a class's words are read and written ones, a dropout's mask among them. Per element: softmax 6 with scale and "
    "dropout, its gradient 5; LayerNorm 7, its gradients 9 and 4; ReLU 0; all else 1."
)
SIZES = {"phase": "train", "batch_size": 8, "seq_len": 512}
WORDS = {
    **{str(each): str(each) for each in LETTERS},
    "elementwise": "element-wise",
    FUSED: "fused attention",
    "movement": "data movement",
}
WORDS |= {
    "routing": "routing",
    RANDOM: "random numbers",
    OUTSIDE: OUTSIDE,
    FRAMEWORK: FRAMEWORK,
    UNATTRIBUTED: UNATTRIBUTED,
}
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
    Column("shown", "time", unit_key="shown_unit"),
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
    """The report of a profile with the paper's table in front, in JSON as `totals.ivanov`; how far to trust it stays behind."""
    found = operators(counted)
    measured = times(found, recording)
    lines = _lines(report, found, measured.groups)
    classes, executed = _classes(report, found, measured), _executed(recording)
    table: Ivanov = {
        "source": SOURCE,
        "paper": {
            "measured_on": MEASURED_ON,
            "wall_s": WALL_S,
            "time_shares": {str(each): share for each, share in TIME_SHARES.items()},
        },
        "classes": classes,
        "operators": lines,
        "executed": executed,
    }
    totals = {**report.totals, "ivanov": table}
    return replace(
        report,
        convention=f"{report.convention} {CONVENTION}",
        totals=totals,
        tables=(*tables_of(totals), *report.tables[-1:]),
        notes=(*_notes(report, measured), *report.notes),
    )


def _lines(report: Report, found: Sequence[Operator], groups: Sequence[Group]) -> list[IvanovOperator]:
    """A record an operator. Time, roof and its share stand at the first of those that were measured together, for all of them."""
    lines: list[IvanovOperator] = [
        {
            "operator": each.line.name,
            "phase": each.line.phase,
            "class": str(each.op_class),
            "flops": each.flops,
            "words_read": each.read,
            "words_written": each.written,
            "seconds": None,
            "timed_with": None,
            "roof": None,
            "roof_share": None,
        }
        for each in found
    ]
    for group in groups:
        first, *others = group.members
        lines[first]["seconds"] = group.seconds
        lines[first]["roof"], lines[first]["roof_share"] = _roof(
            report, [found[i] for i in group.members], group.seconds
        )
        for other in others:
            lines[other]["timed_with"] = found[first].line.name
    return lines


def _roof(
    report: Report, members: Sequence[Operator], seconds: float | None
) -> tuple[str, float] | tuple[None, None]:
    flops, words = sum(each.flops for each in members), sum(each.read + each.written for each in members)
    moved = int(to_bytes(words, report.inputs["dtype"]))
    return bound(flops, moved, seconds or 0.0, report.totals["ceilings"]) or (None, None)


def _classes(report: Report, found: Sequence[Operator], measured: Times) -> dict[str, IvanovClass]:
    """The paper's three classes, then what else took time; times add up to the plain wall."""
    wall, flops = report.totals["wall_s"], sum(each.flops for each in found) or 1
    words = sum(each.read + each.written for each in found) or 1
    rest = {str(name): report.totals["by_class"][name]["seconds"] for name in (FRAMEWORK, UNATTRIBUTED)}
    seconds = {**measured.by_class, **rest}
    three = sum(seconds.get(each, 0.0) for each in LETTERS)
    records: dict[str, IvanovClass] = {}
    for each in LETTERS:
        own = [operator for operator in found if operator.op_class is each]
        spent, done, moved = (
            seconds.get(each, 0.0),
            sum(one.flops for one in own),
            sum(one.read + one.written for one in own),
        )
        records[str(each)] = {
            "flops": done,
            "words": moved,
            "seconds": spent,
            "flop_share": done / flops,
            "word_share": moved / words,
            "time_share": spent / wall,
            "share_of_three": spent / three if three and FUSED not in seconds else None,
            "paper_time_share": TIME_SHARES[each],
        }
    for name in WORDS:
        if name not in LETTERS and name in seconds:
            records[name] = {"seconds": seconds[name], "time_share": seconds[name] / wall}
    return records


def _executed(recording: Recording) -> list[Executed]:
    """What torch executed of the layer, by class: calls, FLOPs (None beside a fused kernel), elements read and written."""
    done: dict[str, Executed] = {}
    for each in recording.census:
        if within_layer(each.path) or each.phase == "sums":
            none: Executed = {
                "class": each.op_class,
                "operations": 0,
                "flops": 0,
                "flop_share": None,
                "read": 0,
                "written": 0,
            }
            record = done.setdefault(each.op_class, none)
            record["operations"] += each.calls
            record["flops"] = (
                None if each.flops is None or record["flops"] is None else record["flops"] + each.flops
            )
            record["read"] += each.read
            record["written"] += each.written
    flops = {name: record["flops"] for name, record in done.items()}
    whole = None if None in flops.values() else sum(each or 0 for each in flops.values()) or 1
    for name, record in done.items():
        record["flop_share"] = None if whole is None else (flops[name] or 0) / whole
    return [done[name] for name in WORDS if name in done]


def tables_of(totals: Mapping[str, Any]) -> Iterator[Table]:
    """The paper's classes and operators, and what was executed, of the totals of a report that has them."""
    found = totals["ivanov"]
    classes = [{"class": name, **record} for name, record in found["classes"].items()]
    title = "Ivanov et al. 2021, Table 1"
    wall = {"class": "plain wall", "seconds": totals["wall_s"], "time_share": 1.0}
    whole = wall | {
        key: sum(record.get(key) or 0 for record in classes)
        for key in ("flops", "flop_share", "words", "word_share")
    }
    doubt = "" if totals["reliable"] else ": NOT RELIABLE, see the notes"
    yield Table(f"{title}: by class{doubt}", BY_CLASS, [_named(record) for record in classes], whole)
    columns = BY_OPERATOR if totals["ceilings"] is not None else BY_OPERATOR[:-2]
    for phase in ("forward", "backward"):
        own = [_shown(line) for line in found["operators"] if line["phase"] == phase]
        if own:
            yield Table(f"{title}: {phase}, in 1e6 words", columns, own)
    yield Table(
        "As executed, operation by operation of torch",
        EXECUTED,
        [_named(record) for record in found["executed"]],
    )


def _named(record: Mapping[str, Any]) -> Record:
    letter = LETTERS.get(record["class"])
    return {**record, "class": f"{letter} {WORDS[record['class']]}" if letter else WORDS[record["class"]]}


def _shown(line: Mapping[str, Any]) -> Record:
    words = f"with {line['timed_with']}" if line["timed_with"] else line["seconds"]
    unit = "text" if line["timed_with"] else "seconds"
    counts = {"read": line["words_read"], "written": line["words_written"]}
    return {
        **line,
        **counts,
        "letter": LETTERS.get(line["class"], line["class"]),
        "shown": words,
        "shown_unit": unit,
    }


def _notes(report: Report, measured: Times) -> Iterator[str]:
    yield f"{SOURCE}. Its shares of the time are of its three classes on a {MEASURED_ON}, {WALL_S * 1e3:.2f} ms."
    asked = {key: report.inputs[key] for key in SIZES}
    if asked != SIZES:
        yield f"Not the paper's sizes, which are {', '.join(f'{key} {value}' for key, value in SIZES.items())}: its shares are of those."
    yield "An operator with another is measured together with it: in one kernel, or in operations that torch gives one name."
    if measured.by_class.get(RANDOM):
        yield "Random numbers are drawn in operations of their own here; there, within the kernels of softmax and dropout."
    if FUSED in measured.by_class:
        yield "Fused attention is no operator of the paper: --attention eager runs the three of which it is made."
