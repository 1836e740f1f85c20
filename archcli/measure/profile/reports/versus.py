"""The report of variants timed in turn: how much longer the second takes than the first, by class and by operator, and how sure that is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING, Any

from archcli.measure.passes import Pass
from archcli.measure.profile.fold import Entry, Folded, fold
from archcli.measure.profile.reports.compiled import explained, figures, named, short
from archcli.measure.profile.reports.gpu import (
    device_doubts,
    device_lines,
    device_notes,
    device_of,
    machine_of,
)
from archcli.measure.profile.reports.groups import regrouped
from archcli.measure.profile.reports.one import MOST_LOAD, MOST_SWITCHES_PER_S, MOST_UNATTRIBUTED, words
from archcli.measure.profile.reports.paired import NONE, of_class, of_path, ratios
from archcli.measure.profile.schema.versus import (
    Both,
    ComparedClass,
    ComparedOperator,
    ReportedVariant,
    Setting,
)
from archcli.measure.profile.schema.versus import Variant as Summary
from archcli.measure.report import Column, Report, Table, facts
from archcli.modules import Model
from archcli.recording.classes import FRAMEWORK, FUSED, UNATTRIBUTED

if TYPE_CHECKING:
    from archcli.recording.kernels import CompiledModel
    from archcli.recording.recording import Timing

CONVENTION = (
    "Passes of all variants ran in turn; a ratio is taken within each round, variant over A, and shown as median and quartiles over "
    "the rounds. FLOP = 2 x multiply-add; FLOPs and bytes are counted, exact for the mask; time is measured."
)
SURE = 4
"""Rounds below which quartiles say little."""
RATIO = (
    Column("ratio", "ratio", "ratio"),
    Column("ratio_q1", "25%", "ratio"),
    Column("ratio_q3", "75%", "ratio"),
)


@dataclass(frozen=True, slots=True)
class Variant:
    """One of those compared: its letter, what was changed, in words and by settings, its pass, and what was measured of it."""

    letter: str
    text: str
    model: Model
    counted: Pass
    dtype: str
    timing: Timing
    changes: tuple[Setting, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Side:
    """A variant with its costs and times joined."""

    variant: Variant
    folded: Folded

    @property
    def unattributed(self) -> float:
        """The share of the plain wall time that operations and framework miss it by."""
        return self.folded.by_class[UNATTRIBUTED].seconds / self.folded.wall_s

    @property
    def reliable(self) -> bool:
        """Whether plain and traced passes tell the same story."""
        recording = self.variant.timing.recording
        return not recording.differing and not recording.lost and abs(self.unattributed) <= MOST_UNATTRIBUTED


def versus(variants: Sequence[Variant], inputs: Mapping[str, Any], depth: int = 0, top: int = 0) -> Report:
    """What `archcli profile --vs` reports; the first variant is the one all others are divided by. `depth`, `top` 0 show everything."""
    sides = [_Side(one, fold(one.counted, one.timing.recording, one.dtype, depth)) for one in variants]
    base, *others = sides
    alike = {side.variant.letter: _alike(base, side, depth) for side in others}
    classes = {letter: _by_class(*pair) for letter, pair in alike.items()}
    operators = {letter: _by_operator(*pair, depth) for letter, pair in alike.items()}
    summary: list[ReportedVariant] = [
        {**_summary(base, side), "operators": operators.get(side.variant.letter, [])} for side in sides
    ]
    tables = [_overview(summary)]
    for side in others:
        letter = side.variant.letter
        tables += [
            _class_table(side.variant, classes[letter]),
            _operator_table(side.variant, operators[letter], top),
        ]
    recording = base.variant.timing.recording
    return Report(
        command="profile",
        model={"name": base.variant.model.name, "source": base.variant.model.source},
        inputs=inputs,
        convention=CONVENTION,
        totals={
            "variants": summary,
            "rounds": len(base.variant.timing.walls),
            "rounds_rejected": recording.rejected,
            "partial": recording.partial,
            "machine": machine_of(recording),
        },
        rows=[line for lines in classes.values() for line in lines],
        tables=(*tables, _trust(sides)),
        notes=(*_notes(sides),),
    )


def _alike(base: _Side, side: _Side, depth: int) -> tuple[_Side, _Side]:
    """The two such that their lines compare: where one is compiled, the other's operations stand where its kernels hold them."""
    ours, theirs = (each.variant.timing.recording.compiled for each in (base, side))
    if ours is None and theirs is not None:
        return _regrouped(base, theirs, depth), side
    if theirs is None and ours is not None:
        return base, _regrouped(side, ours, depth)
    return base, side


def _regrouped(side: _Side, compiled: CompiledModel, depth: int) -> _Side:
    variant = replace(side.variant, timing=regrouped(side.variant.timing, compiled))
    return _Side(variant, fold(variant.counted, variant.timing.recording, variant.dtype, depth))


def _summary(base: _Side, side: _Side) -> Summary:
    one, recording = side.variant, side.variant.timing.recording
    matmul, other = one.counted.flops()
    whole, first = side.folded.whole, base.folded.whole
    return {
        "variant": one.letter,
        "changed": one.text,
        "settings": list(one.changes),
        "params": one.counted.params(),
        "params_ratio": _over(one.counted.params(), base.variant.counted.params()),
        "matmul_flops": matmul,
        "other_flops": other,
        "flops_ratio": _over(whole.flops, first.flops),
        "bytes": whole.bytes,
        "bytes_ratio": _over(whole.bytes, first.bytes),
        "dtype": one.dtype,
        "wall_s": side.folded.wall_s,
        **(ratios(base.variant.timing.walls, one.timing.walls) if side is not base else NONE),
        "attributed_share": side.folded.attributed_share,
        "unattributed_share": side.unattributed,
        "reliable": side.reliable,
        "compiled": figures(recording.compiled),
        "overhead_ratio": median(
            traced / plain for plain, traced in zip(recording.plain_s, recording.traced_s, strict=True)
        ),
        "operations_executed": recording.executed,
        "operations_counted": recording.counted,
        "operations_differing": list(recording.differing),
        "launches_lost": list(recording.lost),
        "device": device_of(recording, side.folded.wall_s),
        "plain_s": list(recording.plain_s),
        "traced_s": list(recording.traced_s),
    }


def _by_class(base: _Side, side: _Side) -> list[ComparedClass]:
    """A line for each class that either of the two has, framework and the rest last."""
    lines: list[ComparedClass] = []
    for name in dict.fromkeys([*base.folded.by_class, *side.folded.by_class]):
        ours, theirs = (each.folded.by_class.get(name, Entry()) for each in (base, side))
        if not (ours.seconds or theirs.seconds or ours.bytes or theirs.bytes):
            continue
        spread = (
            NONE
            if name == UNATTRIBUTED
            else ratios(of_class(base.variant.timing, name), of_class(side.variant.timing, name))
        )
        lines.append({"variant": side.variant.letter, "class": name, **_pair(ours, theirs), **spread})
    return sorted(
        lines,
        key=lambda line: (
            line["class"] in {FRAMEWORK, UNATTRIBUTED},
            -line["base_seconds"],
            -line["seconds"],
        ),
    )


def _by_operator(base: _Side, side: _Side, depth: int) -> list[ComparedOperator]:
    """A line for each operator or group of them, those first whose time differs most."""
    lines: list[ComparedOperator] = []
    groups = named(base.variant.timing.recording, depth) | named(side.variant.timing.recording, depth)
    for path in dict.fromkeys([*base.folded.by_path, *side.folded.by_path]):
        ours, theirs = (each.folded.by_path.get(path, Entry()) for each in (base, side))
        rounds = [of_path(each.variant.timing, path, depth) for each in (base, side)]
        lines.append({"path": path, "operators": groups.get(path), **_pair(ours, theirs), **ratios(*rounds)})
    return sorted(lines, key=lambda line: -abs(line["difference_s"]))


def _pair(ours: Entry, theirs: Entry) -> Both:
    return {
        "base_seconds": ours.seconds,
        "seconds": theirs.seconds,
        "difference_s": theirs.seconds - ours.seconds,
        "base_flops": ours.flops,
        "flops": theirs.flops,
        "flops_ratio": _over(theirs.flops, ours.flops),
        "base_bytes": ours.bytes,
        "bytes": theirs.bytes,
        "bytes_ratio": _over(theirs.bytes, ours.bytes),
    }


def _over(amount: Any, base: Any) -> float | None:
    return amount / base if base else None


def _overview(summary: Sequence[Mapping[str, Any]]) -> Table:
    columns = (
        Column("variant", ""),
        Column("changed", "variant"),
        Column("params_ratio", "params", "ratio", minor=True),
        Column("flops_ratio", "FLOPs", "ratio"),
        Column("bytes_ratio", "bytes", "ratio", minor=True),
        Column("wall_s", "wall", "seconds"),
        *RATIO,
    )
    title = "Variants" if all(one["reliable"] for one in summary) else "Variants: NOT RELIABLE, see the notes"
    return Table(title, columns, summary)


def _class_table(variant: Variant, lines: Sequence[Mapping[str, Any]]) -> Table:
    records = [{**line, "class": words(line["class"])} for line in lines]
    costs = (
        Column("flops_ratio", "FLOPs", "ratio", minor=True),
        Column("bytes_ratio", "bytes", "ratio", minor=True),
    )
    columns = (Column("class", "class"), *_times(variant), *costs)
    return Table(f"{variant.letter} against A, by class: {variant.text}", columns, records)


def _operator_table(variant: Variant, lines: Sequence[Mapping[str, Any]], top: int) -> Table:
    shown = [{**line, "path": short(line["path"], line["operators"])} for line in lines[: top or None]]
    title = f"{variant.letter} against A: the {len(shown)} operators of {len(lines)} whose time differs most"
    columns = (
        Column("path", "operator"),
        *_times(variant)[:2],
        Column("difference_s", f"{variant.letter} - A", "seconds"),
        *RATIO,
    )
    return Table(title, columns, shown)


def _times(variant: Variant) -> tuple[Column, ...]:
    return (Column("base_seconds", "A", "seconds"), Column("seconds", variant.letter, "seconds"), *RATIO)


def _trust(sides: Sequence[_Side]) -> Table:
    first = sides[0].variant.timing
    lines: list[tuple[str, Any, Any]] = [
        ("rounds, rejected as disturbed", f"{len(first.walls)}, {first.recording.rejected}", "text")
    ]
    for side in sides:
        letter, recording, folded = side.variant.letter, side.variant.timing.recording, side.folded
        overhead = median(
            traced / plain for plain, traced in zip(recording.plain_s, recording.traced_s, strict=True)
        )
        slowest = f"{min(recording.plain_s) * 1e3:.1f} to {max(recording.plain_s) * 1e3:.1f} ms"
        lines += [
            (f"{letter}: plain wall, fastest to slowest", slowest, "text"),
            (f"{letter}: traced / plain", overhead, "ratio"),
            (f"{letter}: operations / plain", folded.attributed_share, "share"),
            (f"{letter}: unattributed", side.unattributed, "share"),
            (
                f"{letter}: operations in the trace as expected",
                f"{recording.counted} of {recording.executed}",
                "text",
            ),
            *(
                (f"{letter}: {name}", value, unit)
                for name, value, unit in device_lines(recording, folded.wall_s)
            ),
        ]
    return facts(
        "How far to trust it",
        *lines,
        *((name, value, "text") for name, value in first.recording.machine.items()),
    )


def _timed_classes(side: _Side) -> set[str]:
    return {timed.op_class for timed in side.variant.timing.recording.timed}


def _notes(sides: Sequence[_Side]) -> Iterator[str]:
    rounds = len(sides[0].variant.timing.walls)
    if sides[0].variant.timing.recording.partial:
        yield f"PARTIAL: interrupted after {rounds} rounds of passes."
    yield from _doubts(sides)
    if rounds < SURE:
        yield f"{rounds} rounds are few: quartiles of so few ratios say little."
    for side in sides[1:]:
        if (FUSED in _timed_classes(side)) != (FUSED in _timed_classes(sides[0])):
            yield f"{side.variant.letter} and A differ in whether attention is one fused kernel: compare the operators, not the classes."
    for side in sides[1:]:
        ours, theirs = (each.variant.timing.recording.compiled is None for each in (sides[0], side))
        if ours != theirs:
            one, other = ("A", side.variant.letter) if ours else (side.variant.letter, "A")
            yield f"{one} runs operation by operation: its times stand on the lines of {other}'s kernels, and in their classes."
    for side in sides:
        yield from (
            f"{side.variant.letter}: {note}"
            for note in explained(side.variant.counted, side.variant.timing.recording)
        )
        for change in side.variant.changes:
            yield f"{side.variant.letter}: {change['setting']} {change['from']} -> {change['to']}"
        yield from (f"{side.variant.letter}: {note}" for note in side.variant.notes)
    yield from device_notes(sides[0].variant.timing.recording)
    yield "A ratio whose quartiles lie on both sides of 1 is no difference that was seen."
    yield "Weights are random."


def _doubts(sides: Sequence[_Side]) -> Iterator[str]:
    for side in sides:
        letter, recording = side.variant.letter, side.variant.timing.recording
        if recording.differing:
            yield f"NOT RELIABLE: {letter}'s trace differs from what was expected in {', '.join(recording.differing[:5])}."
        elif abs(side.unattributed) > MOST_UNATTRIBUTED:
            yield f"NOT RELIABLE: {letter}'s plain and traced passes differ by {side.unattributed:.0%} of the plain wall time; repeat it."
        yield from (f"{letter}: {doubt}" for doubt in device_doubts(recording))
    load = sides[0].variant.timing.recording.load
    switches = max(side.variant.timing.recording.switches_per_s for side in sides)
    if load > MOST_LOAD or switches > MOST_SWITCHES_PER_S:
        yield f"A BUSY MACHINE: {load:.1f} processes a processor when it began, {switches:.0f} involuntary context switches a second."
