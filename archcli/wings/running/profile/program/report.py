"""The report of a watched program: where the time of its steps goes, and how far to trust it."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING, Any, cast

from archcli.errors import shorten
from archcli.graph import OpClass
from archcli.measure.report import Column, Fact, Report, Table, facts
from archcli.wings.running.profile.program.advice import MUCH_PRODUCTS, advice
from archcli.wings.running.profile.program.shares import (
    NO_KERNEL,
    Spent,
    attributed_share,
    calls_per_step,
    flops_by_place,
    folding,
    outside_share,
    shares,
    tallied,
)
from archcli.wings.running.profile.quality import (
    MOST_OVERHEAD,
    disturbance_warning,
    fastest_to_slowest,
    is_disturbed,
    overhead_ratio,
)
from archcli.wings.running.profile.reports.sections import time_in_words
from archcli.wings.running.recording.program import (
    LOADER,
    OPTIMIZER,
    OUTSIDE,
    UNPLACED,
    WAITING,
    ProgramRecording,
    class_label,
)
from archcli.wings.serving.recorded.classes import FRAMEWORK
from archcli.wings.serving.recorded.machine import Ceilings

if TYPE_CHECKING:
    from archcli.wings.serving.recorded.schema.own import ProgramFinding, ProgramRow, StepFigures
    from archcli.wings.serving.recorded.schema.records import DisturbanceFigures

CONVENTION = (
    "Shares are of the traced steps' wall time and add up to 100% with what lies between kernels. A kernel "
    "is an operation of torch that computes or moves, placed at the innermost module that ran it; on a GPU "
    "its time is the device's. FLOP = 2 x multiply-add, of matrix products, as executed in one step."
)
LONGEST_WORD = 60
"""Characters of a program's word that a heading shows: code behind -c may be a whole file."""
FLOPS_NOT_COUNTED = "FLOPs and MFU are not known: "
CLASS_COLUMNS = (
    Column("class", "class"),
    Column("share", "share", "share"),
    Column("seconds", "time", "seconds"),
)
CALLS = Column("calls", "kernels", "number", minor=True)
PHASE_COLUMNS = (Column("phase", "phase"), *CLASS_COLUMNS[1:], CALLS)
ADVICE_COLUMNS = (
    Column("figure", "figure", "share"),
    Column("what", "what is unusual", wraps=True),
    Column("attempt", "what to try", wraps=True),
)
MODULE_COLUMNS = (
    Column("path", "module"),
    Column("module", "of class", minor=True),
    Column("phase", "phase"),
    Column("class", "mostly", minor=True),
    *CLASS_COLUMNS[1:],
    CALLS,
    Column("gflops_per_s", "GFLOP/s", "number", minor=True),
)


def main_dtype(recording: ProgramRecording) -> str | None:
    """The dtype of most products' FLOPs; None where none was counted."""
    by_dtype = {} if recording.counted is None else recording.counted.by_dtype
    return max(by_dtype, key=lambda name: by_dtype[name], default=None)


def is_mostly_fp32(recording: ProgramRecording) -> bool:
    """Whether products in fp32 take so much of a step that another number format may pay."""
    products = sum(it.seconds for it in recording.placed if it.op_class == OpClass.CONTRACTION)
    return main_dtype(recording) == "fp32" and products > MUCH_PRODUCTS * recording.traced_total_s


def program_report(
    recording: ProgramRecording,
    program: Sequence[str],
    inputs: Mapping[str, Any],
    peaks: Mapping[str, Ceilings],
    *,
    depth: int = 0,
    top: int = 0,
    ended_by: str = "",
) -> Report:
    """The report of a program of which at least one step was traced; `depth` and `top` 0 show everything.

    `peaks` are those of this machine by dtype, of which it needs that of most products, and that of bf16.
    """
    folded = folding(recording.modules, depth)
    totals = _totals(recording, peaks, folded)
    rows = _rows(recording, folded)
    findings = [it._asdict() for it in advice(recording, totals)]
    totals["advice"] = cast("list[ProgramFinding]", findings)
    return Report(
        command="profile",
        model={"name": shlex.join(shorten(word, LONGEST_WORD) for word in program), "source": "a program"},
        inputs={"program": [*program], **inputs},
        # the words are the heading
        usual={"program": [*program], "step_on": "optimizer", "warm_up": 2, "steps": 5},
        convention=CONVENTION,
        totals=totals,
        rows=rows,
        tables=(
            facts(": ".join(filter(None, ("A step", _unreliable(recording)))), *_step(recording, totals)),
            *([Table("What is unusual, and what to try", ADVICE_COLUMNS, findings)] if findings else []),
            _class_table(totals),
            _phase_table(recording, totals),
            _module_table(rows, top),
            facts("How far to trust it", *_facts(recording, totals)),
        ),
        notes=(*_warnings(recording, totals, ended_by), *_notes(recording)),
        headline=_headline(recording, totals),
    )


def _unreliable(recording: ProgramRecording) -> str:
    """What is said where the machine was busy with something else."""
    disturbed = recording.plain_s and is_disturbed(recording.as_recording())
    return "NOT RELIABLE, see the notes" if disturbed else ""


def _headline(recording: ProgramRecording, totals: Mapping[str, Any]) -> str:
    """`12.3 ms a step; matrix products 71.3% of the time; MFU 31.2%`."""
    mfu = "" if totals["mfu"] is None else f"MFU {totals['mfu']:.1%}"
    time = time_in_words(totals["step_s"], "a step", totals["by_class"])
    return "; ".join(filter(None, (time, mfu, _unreliable(recording))))


def _totals(
    recording: ProgramRecording, peaks: Mapping[str, Ceilings], folded: Callable[[str], str]
) -> StepFigures:
    step_s = median(recording.plain_s or recording.traced_s)
    counted, dtype = recording.counted, main_dtype(recording)
    rates = {name: ceilings["gemm_flops_per_s"] for name, ceilings in peaks.items()}
    peak = rates.get(dtype or "")
    matmul = None if counted is None else counted.matmul_flops
    rate = None if matmul is None else matmul / step_s
    by_class = shares(recording, lambda time: time.op_class, FRAMEWORK)
    return {
        "steps": recording.steps,
        "steps_watched": len(recording.traced_s),
        "step_s": step_s,
        "attributed_share": attributed_share(recording),
        "outside_share": outside_share(recording),
        "kernel_share": recording.kernels_s / recording.traced_total_s,
        "framework_share": by_class[FRAMEWORK],
        "waiting_share": by_class[WAITING],
        "mfu": rate / peak if rate is not None and peak else None,
        "by_class": by_class,
        "by_phase": shares(recording, lambda time: time.phase, NO_KERNEL),
        "by_path": shares(recording, lambda time: folded(time.path), NO_KERNEL),
        "matmul_flops": matmul,
        "other_flops": None if counted is None else counted.other_flops,
        "matmul_dtype": dtype,
        "uncounted": [] if counted is None else [*counted.uncounted],
        "flops_per_s": rate,
        "ceilings": peaks.get(dtype or ""),
        "bf16_flops_per_s": rates.get("bf16"),
        "kernels_per_step": calls_per_step(recording),
        "overhead_ratio": overhead_ratio(recording.as_recording()) if recording.plain_s else None,
        "tokens": None if recording.tokens is None else list(recording.tokens),
        "optimizers": list(recording.optimizers),
        "compiled_graphs": recording.graphs,
        "plain_s": list(recording.plain_s),
        "traced_s": list(recording.traced_s),
        "device": recording.device,
        "machine": dict(recording.machine),
        "advice": [],
        "disturbance": cast("DisturbanceFigures", recording.disturbance._asdict()),
    }


def _rows(recording: ProgramRecording, folded: Callable[[str], str]) -> list[ProgramRow]:
    """A record per module, phase and class, the slowest first."""
    flops, number = flops_by_place(recording, folded), len(recording.traced_s)
    # a path that is cut stands for modules of several classes
    classes: dict[str, set[str]] = defaultdict(set)
    for path, name in recording.modules.items():
        classes[folded(path)].add(name)
    modules = {path: next(iter(names)) for path, names in classes.items() if len(names) == 1}
    spent = tallied(recording, lambda it: "\n".join((folded(it.path), it.phase, it.op_class)))
    return [_row(key.split("\n"), of_key, recording, modules, number, flops) for key, of_key in spent.items()]


def _row(
    place: list[str],
    spent: Spent,
    recording: ProgramRecording,
    modules: Mapping[str, str],
    number: int,
    flops: Mapping[tuple[str, str, str], int],
) -> ProgramRow:
    path, phase, op_class = place
    seconds = spent.seconds / number
    # products of other phases than forward are those of gradients
    of_place = flops.get((path, "backward" if phase == "backward" else "forward", op_class))
    return {
        "path": path,
        "module": modules.get(path),
        "phase": phase,
        "class": op_class,
        "share": spent.seconds / recording.traced_total_s,
        "seconds": seconds,
        "calls": spent.calls / number,
        "flops": of_place,
        "gflops_per_s": round(of_place / seconds / 1e9, 1) if of_place and seconds else None,
        "operations": spent.names(),
    }


def _class_table(totals: Mapping[str, Any]) -> Table:
    traced_s = sum(totals["traced_s"]) / len(totals["traced_s"])
    records = [
        {"class": class_label(name), "share": share, "seconds": share * traced_s}
        for name, share in totals["by_class"].items()
        if share
    ]
    whole = {"class": "a traced step", "share": sum(totals["by_class"].values()), "seconds": traced_s}
    return Table("Where the time of a step goes", CLASS_COLUMNS, records, whole)


def _phase_table(recording: ProgramRecording, totals: Mapping[str, Any]) -> Table:
    number, whole = len(recording.traced_s), recording.traced_total_s
    calls = {phase: it.calls for phase, it in tallied(recording, lambda time: time.phase).items()}
    records = [
        {
            "phase": phase,
            "share": share,
            "seconds": share * whole / number,
            "calls": round(calls[phase] / number) if phase in calls else None,
        }
        for phase, share in totals["by_phase"].items()
        if share
    ]
    return Table("By phase", PHASE_COLUMNS, records)


def _module_table(rows: Sequence[Mapping[str, Any]], top: int) -> Table:
    shown = rows[: top or None]
    title = "By module" + (f": the slowest {len(shown)} of {len(rows)}" if len(shown) < len(rows) else "")
    records = [{**row, "class": class_label(row["class"]), "calls": round(row["calls"])} for row in shown]
    return Table(title, MODULE_COLUMNS, records)


def _step(recording: ProgramRecording, totals: Mapping[str, Any]) -> Iterator[Fact]:
    """The figures of a whole step."""
    yield "time, median", totals["step_s"], "seconds"
    if recording.plain_s:
        yield "fastest to slowest", fastest_to_slowest(recording.as_recording()), "text"
    yield "kernels", round(totals["kernels_per_step"]), "number"
    if totals["matmul_flops"]:
        yield "FLOPs of products", totals["matmul_flops"], "flops"
        rate = f"{totals['flops_per_s'] / 1e9:.1f} GFLOP/s"
        yield f"products per second, in {totals['matmul_dtype']}", rate, "text"
    if totals["mfu"] is not None:
        peak = totals["ceilings"]["gemm_flops_per_s"] / 1e9
        yield f"MFU, of the {peak:.0f} GFLOP/s that a product reaches here", totals["mfu"], "share"
    if totals["tokens"] is not None:
        batch, length = totals["tokens"]
        yield "batch and tokens of a sequence", f"{batch} x {length:,}", "text"
    yield "steps of the program", totals["steps"], "number"
    yield "steps traced, each beside a plain one", totals["steps_watched"], "number"


def _facts(recording: ProgramRecording, totals: Mapping[str, Any]) -> Iterator[Fact]:
    if totals["overhead_ratio"] is not None:
        yield "traced step / plain step", totals["overhead_ratio"], "ratio"
    yield "kernels placed, of their time", totals["attributed_share"], "share"
    yield "kernels outside of modules, of a step", totals["outside_share"], "share"
    waited = recording.disturbance.waited_share
    if waited is not None:
        yield "threads waiting for a processor, of their time", waited, "share"
    yield from ((name, value, "text") for name, value in totals["machine"].items())


def _warnings(recording: ProgramRecording, totals: Mapping[str, Any], ended_by: str) -> Iterator[str]:
    """What makes the figures less than sound, a sentence each."""
    if ended_by:
        complete = "The" if recording.complete else "PARTIAL: the"
        yield f"{complete} program ended by {ended_by}."
    if recording.failure:
        yield f"PARTIAL: watching ended early: {recording.failure}."
    overhead = totals["overhead_ratio"]
    if overhead is not None and overhead > MOST_OVERHEAD:
        yield f"Tracing slowed a step by {overhead - 1:.0%}: small operations look too expensive."
    if recording.plain_s and is_disturbed(recording.as_recording()):
        yield disturbance_warning(recording.as_recording())
    if recording.counted is None:
        yield f"{FLOPS_NOT_COUNTED}no step was counted."
    elif recording.counted.uncounted:
        yield f"Not among the FLOPs, for want of a formula: {', '.join(sorted(recording.counted.uncounted))}."


def _notes(recording: ProgramRecording) -> Iterator[str]:
    """How to read the figures."""
    places = {time.path for time in recording.placed}
    for place, meaning in MEANINGS.items():
        if place in places:
            yield f"{place}: {meaning}"
    if recording.graphs:
        yield (
            "Compiled: a kernel that several modules were fused into is placed at the module that holds them "
            "all; modules that ran uncompiled beside the graphs are outside, and their FLOPs are not counted."
        )
    if recording.device == "cuda":
        yield "Not measured on a GPU yet: this way of watching a program was tried on a CPU alone."


MEANINGS = {
    OPTIMIZER: "the optimizer's step and zero_grad.",
    LOADER: "the next batch of the data loader, in this process.",
    OUTSIDE: "functions that the program calls itself, such as a loss, and their backward.",
    UNPLACED: "a backward whose forward ran before the traced step.",
}
