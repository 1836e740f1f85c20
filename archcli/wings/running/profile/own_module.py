"""The report on the time of a module of one's own: seconds beside FLOPs, by module and by class."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from archcli.graph.part import LABELS
from archcli.measure.report import Column, Report, Table
from archcli.wings.running.profile.reports.sections import time_in_words
from archcli.wings.running.profile.summary import class_name, flops_of, module_report, with_names
from archcli.wings.running.recording.own import ModuleRun, ModuleTimes

if TYPE_CHECKING:
    from archcli.wings.serving.recorded.schema.own import ModuleRow, ModuleTotals

CONVENTION = (
    "Seconds are medians over passes on this machine, clocked around each operation of torch; the wall is "
    "that of plain passes, and its rest is Python, autograd and torch's dispatcher. FLOP = 2 x multiply-add."
)
REST = "framework"


def profile_report(run: ModuleRun) -> Report:
    """The report of `archcli profile` on a module."""
    times = run.times or ModuleTimes(0.0, 0, {}, {})
    rows = sorted(_records(run, times), key=lambda record: -record["seconds"])
    flops = sum(record["flops"] for record in rows)
    kernels = sum(times.by_class.values())
    classes = {**times.by_class, REST: max(times.wall_s - kernels, 0.0)}
    whole = sum(classes.values()) or 1.0
    totals: ModuleTotals = {
        "wall_s": times.wall_s,
        "passes": times.passes,
        "attributed_share": min(kernels / whole, 1.0),
        "matmul_flops": flops,
        "flops_per_s": flops / times.wall_s if times.wall_s else 0.0,
        "by_class": {name: seconds / whole for name, seconds in classes.items()},
    }
    report = module_report(
        run,
        "profile",
        CONVENTION,
        totals=totals,
        rows=rows,
        tables=tuple(_tables(totals, with_names(run, rows))),
        notes=_notes(times, kernels),
        headline=time_in_words(times.wall_s, "a pass", totals["by_class"]),
    )
    return replace(report, inputs={"phase": run.phase, "device": run.run_on, "input": list(run.inputs)})


def _notes(times: ModuleTimes, kernels: float) -> Iterator[str]:
    passes = "1 plain pass" if times.passes == 1 else f"{times.passes} plain passes"
    yield f"{passes} and as many timed ones, in turn."
    if kernels > times.wall_s:
        yield "Operations took longer alone than a plain pass with all: shares are of the operations."


def _records(run: ModuleRun, times: ModuleTimes) -> Iterator[ModuleRow]:
    left = dict(times.by_path)
    whole = sum(map(sum, left.values())) or 1.0
    for row in run.rows:
        forward, backward = _taken(left, row.path)
        yield {
            "path": row.path,
            "op": class_name(row),
            "group": row.group,
            "times": row.times,
            "seconds": forward + backward,
            "forward_s": forward,
            "backward_s": backward,
            "share": (forward + backward) / whole,
            "flops": flops_of(row, run.phase).matmul,
        }


def _taken(left: dict[str, tuple[float, float]], path: str) -> tuple[float, float]:
    """The seconds of all modules that a folded path stands for, taken out: `layers.0-2` is of three."""
    matches = [name for name in left if _stands_for(path, name)]
    taken = [left.pop(name) for name in matches]
    return sum(x[0] for x in taken), sum(x[1] for x in taken)


def _stands_for(path: str, name: str) -> bool:
    steps, names = path.split("."), name.split(".")
    return len(steps) == len(names) and all(map(_step_stands_for, steps, names))


def _step_stands_for(step: str, name: str) -> bool:
    if step == name or (step == "*" and name.isdecimal()):
        return True
    if not name.isdecimal() or not re.fullmatch(r"[\d,-]+", step):
        return False
    bounds = (run.partition("-") for run in step.split(","))
    return any(int(first) <= int(name) <= int(last or first) for first, _, last in bounds)


def _tables(totals: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> Iterator[Table]:
    classes = (Column("class", "class"), Column("share", "time", "share"))
    shares = sorted(totals["by_class"].items(), key=lambda item: -item[1])
    footer = {"class": "wall", "share": 1.0}
    yield Table(
        "By class",
        classes,
        [{"class": LABELS.get(name, name), "share": share} for name, share in shares],
        footer,
    )
    columns = (
        Column("path", "path"),
        Column("op", "class"),
        Column("times", "times", "number"),
        Column("seconds", "time", "seconds"),
        Column("share", "share", "share"),
        Column("flops", "matmul FLOPs", "flops"),
    )
    footer = {
        "path": "total",
        "seconds": sum(x["seconds"] for x in rows),
        "share": 1.0,
        "flops": totals["matmul_flops"],
    }
    yield Table("By module", columns, [x for x in rows if x["seconds"]], footer)
