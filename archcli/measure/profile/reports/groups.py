"""Groups: operations that a compiler fused into one kernel stand on one line, with the sum of what they cost.

A kernel's time is never split. What a row costs stands with the kernel that runs that part of it first, so that every FLOP is counted
once; a row that no kernel holds stands for itself, and took no time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

from archcli.graph import Op, Part, Row
from archcli.measure.passes import Pass, folded_path

if TYPE_CHECKING:
    from archcli.recording.kernels import CompiledModel
    from archcli.recording.operations import ClassKey, OpInstance
    from archcli.recording.recording import Recording, Timing

JOIN = " + "
"""Between the paths of a group."""


class Charge(NamedTuple):
    """What a part of a row costs, and where that stands: the path of the row or of a group, the class; `times` over.

    `executed` FLOPs ran, and of routed experts so many had their weights read.
    """

    path: str
    op_class: str
    part: Part
    executed: int
    times: int
    experts: int | Fraction = 1


def members(path: str, depth: int = 0) -> list[str]:
    """The operators of a group, or the one of a path, folded to `depth` steps (0: all of them)."""
    return list(dict.fromkeys(folded_path(one, depth or None) for one in path.split(JOIN)))


def label(path: str, depth: int = 0) -> str:
    """The name of a path on its line: `layers.*.{attention_residual, ffn_norm}` for a group."""
    tree: dict[str, Any] = {}
    for member in members(path, depth):
        place = tree
        for step in member.split("."):
            place = place.setdefault(step, {})
    return _braced(tree)


def _braced(tree: dict[str, Any]) -> str:
    names = [f"{step}.{_braced(below)}" if below else step for step, below in tree.items()]
    return names[0] if len(names) == 1 else f"{{{', '.join(names)}}}"


def charges(counted: Pass, recording: Recording, fused: str) -> Iterator[Charge]:
    """Every part of every row: where it stands in a compiled model, else at the row's own path in its own class.

    A row whose attention ran as one kernel has that class, `fused`, with all its parts.
    """
    whole = {timed.path for timed in recording.timed if timed.op_class == fused}
    if recording.compiled is None:
        reached = _reached(recording)
        for row in counted.rows:
            for _, part in pieces(row, counted.phase):
                op_class = fused if row.path in whole else str(part.op_class)
                yield Charge(
                    row.path,
                    op_class,
                    part,
                    _ran(row, part, op_class == fused),
                    int(row.times),
                    reached.get(folded_path(row.path), 1),
                )
        return
    for path, row, times in occurrences(counted.rows, recording.ran):
        for phase, part in pieces(row, counted.phase):
            place, op_class = recording.compiled.home(path, phase, str(part.op_class)) or (
                path,
                str(part.op_class),
            )
            yield Charge(
                place,
                op_class,
                part,
                _ran(row, part, op_class == fused),
                times,
                recording.reached.get(path, 1),
            )


def _ran(row: Row, part: Part, fused: bool) -> int:
    """FLOPs that kernels ran."""
    return int(part.flops if fused and row.op.skips_masked(*row.inputs) else part.dense_flops)


def _reached(recording: Recording) -> dict[str, Fraction]:
    """How many experts' weights a row of routed experts moved, the mean over the layers that share its folded path."""
    found: dict[str, list[int]] = defaultdict(list)
    for path, experts in recording.reached.items():
        found[folded_path(path)].append(experts)
    return {path: Fraction(sum(each), len(each)) for path, each in found.items()}


def occurrences(rows: Sequence[Row], ran: Iterable[OpInstance]) -> Iterator[tuple[str, Row, int]]:
    """(path as it ran, row, how often) for each occurrence of a counted row: layers that are alike are counted once, and all run."""
    left = [int(row.times) for row in rows]
    exact, alike = dict[str, int](), defaultdict[str, list[int]](list)
    for i, row in enumerate(rows):
        exact[row.path] = i
        alike[folded_path(row.path)].append(i)
    for each in sorted(ran, key=lambda each: each.path not in exact):
        places = [exact[each.path]] if each.path in exact else alike[folded_path(each.path)]
        found = next(
            (
                i
                for i in places
                if left[i] and rows[i].inputs == each.inputs and _said(rows[i].op) == _said(each.op)
            ),
            None,
        )
        if found is not None:
            left[found] -= 1
            yield each.path, rows[found], 1
    yield from ((row.path, row, times) for row, times in zip(rows, left, strict=True) if times)


def _said(op: Op) -> str:
    """An operation by its settings; how many tokens came before is told to a run by positions."""
    any_op: Any = op
    return repr(replace(any_op, past=0) if hasattr(op, "past") else op)


def pieces(row: Row, phase: str) -> Iterator[tuple[str, Part]]:
    """The parts of a row that a pass runs: forward, and in training backward."""
    for part in row.parts:
        if part.training and phase != "train":
            continue
        yield "forward", part
        if phase == "train":
            yield from (("backward", back) for back in part.backward)


def regrouped(timing: Timing, compiled: CompiledModel) -> Timing:
    """What was timed operation by operation, set where a compiled model's kernels hold those operations: like beside like."""

    def moved(place: ClassKey) -> ClassKey:
        home = compiled.home(place.path, place.phase, place.op_class)
        return place if home is None else place._replace(path=home.path, op_class=home.op_class)

    rounds = []
    for places in timing.places:
        seconds: dict[ClassKey, float] = defaultdict(float)
        for place, took in places.items():
            seconds[moved(place)] += took
        rounds.append(seconds)
    homes = [compiled.home(each.path, each.phase, each.op_class) for each in timing.recording.timed]
    timed = [
        each if home is None else replace(each, path=home.path, op_class=home.op_class)
        for each, home in zip(timing.recording.timed, homes, strict=True)
    ]
    return timing._replace(
        recording=replace(timing.recording, timed=tuple(timed), compiled=compiled), places=tuple(rounds)
    )
