"""The report of a profile: by class, by operator, how far to trust it, and what must be known to read it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from statistics import median
from typing import TYPE_CHECKING, Any

from archcli.graph import OpClass
from archcli.measure.passes import Pass
from archcli.measure.profile.fold import Entry, Folded, fold
from archcli.measure.profile.reports.compiled import counts, explained, figures, named, short
from archcli.measure.profile.reports.gpu import (
    device_doubts,
    device_lines,
    device_notes,
    device_of,
    is_gpu,
    machine_of,
)
from archcli.measure.profile.roofline import bound
from archcli.measure.profile.schema.figures import Figures, Operator
from archcli.measure.profile.schema.whole import Measured
from archcli.measure.report import Column, Report, Table, Unit, facts
from archcli.modules import Model
from archcli.modules.loss import LOSS
from archcli.ops import Attend, Linear
from archcli.recording.ceilings import Ceilings
from archcli.recording.classes import FRAMEWORK, FUSED, RANDOM, UNATTRIBUTED

if TYPE_CHECKING:
    from archcli.recording.recording import Recording

CONVENTION = (
    "FLOP = 2 x multiply-add. FLOPs and bytes are counted, exact for the mask; time is measured. Time shares are of the plain wall "
    "time and add up to 100% with framework and unattributed. GFLOP/s are of what was executed. Bytes are of operations that run one "
    "by one; a fused kernel moves fewer."
)
# Within these a profile is sound: seen on a quiet machine at steps of 20 ms and more (overhead at most 1.03, attributed 0.95 to 1.01),
# with room for short steps; 120 involuntary context switches a second are what a busy neighbour causes.
MOST_OVERHEAD, LEAST_ATTRIBUTED, MOST_SWITCHES_PER_S, MOST_LOAD = 1.06, 0.90, 120.0, 1.0
MOST_UNATTRIBUTED = 0.10
"""Where operations and framework miss the plain wall time by more, either way, the headline says so: seen on a quiet machine 0 to 0.03."""

COLUMNS = (
    Column("flop_share", "FLOP share", "share"),
    Column("byte_share", "byte share", "share"),
    Column("time_share", "time share", "share"),
    Column("seconds", "time", "seconds"),
    Column("gflops_per_s", "GFLOP/s", minor=True),
    Column("gbytes_per_s", "GB/s", minor=True),
)
BUSY_COLUMN = Column("busy_share", "of busy device", "share")
ROOF_COLUMNS = (
    Column("intensity", "FLOP/byte", minor=True),
    Column("roof", "roof", minor=True),
    Column("roof_share", "of it", "share", minor=True),
)


def profile_of(
    model: Model,
    counted: Pass,
    recording: Recording,
    inputs: Mapping[str, Any],
    depth: int = 0,
    top: int = 0,
    ceilings: Ceilings | None = None,
) -> Report:
    """What `archcli profile` reports of a pass that was counted and timed; `depth` and `top` 0 show everything.

    `ceilings` are what the machine can do at best: gemm_flops_per_s, dram_bytes_per_s, cache_bytes_per_s.
    """
    folded = fold(counted, recording, inputs["dtype"], depth, ceilings)
    groups = named(recording, depth)
    rows: list[Operator] = [
        {"path": path, "operators": groups.get(path), "class": _classes(entry), **_line(folded, entry)}
        for path, entry in folded.by_path.items()
    ]
    rows.sort(key=lambda row: -row["seconds"])
    return Report(
        command="profile",
        model={"name": model.name, "source": model.source},
        inputs=inputs,
        convention=CONVENTION,
        totals=_totals(counted, recording, folded),
        rows=rows,
        tables=(_by_class(recording, folded), _by_operator(folded, rows, top), _honesty(recording, folded)),
        notes=(
            *_warnings(recording, folded),
            *device_doubts(recording),
            *device_notes(recording),
            *_explanations(counted, recording),
        ),
    )


def _totals(counted: Pass, recording: Recording, folded: Folded) -> Measured:
    matmul, other = counted.flops()
    wall = folded.wall_s
    return {
        "wall_s": wall,
        "attributed_share": folded.attributed_share,
        "framework_share": folded.by_class[FRAMEWORK].seconds / wall,
        "unattributed_share": folded.by_class[UNATTRIBUTED].seconds / wall,
        "unlabelled_share": folded.unlabelled_s / wall,
        "overhead_ratio": _overhead(recording),
        "reliable": _reliable(recording, folded),
        "matmul_flops": matmul,
        "other_flops": other,
        "flops_by_class": _flops_by_class(counted),
        "executed_flops": folded.whole.executed_flops,
        "bytes": folded.whole.bytes,
        "by_class": {name: _line(folded, entry) for name, entry in folded.by_class.items()},
        "ceilings": folded.ceilings,
        "processes": 1,
        "pairs": len(recording.traced_s),
        "pairs_rejected": recording.rejected,
        "partial": recording.partial,
        "extrapolated": recording.extrapolated,
        "compiled": figures(recording.compiled),
        "plain_s": list(recording.plain_s),
        "traced_s": list(recording.traced_s),
        "operations_executed": recording.executed,
        "operations_differing": list(recording.differing),
        "launches_lost": list(recording.lost),
        "page_faults_per_pass": recording.page_faults,
        "system_s_per_pass": recording.system_s,
        "context_switches_per_s": recording.switches_per_s,
        "load_per_processor": recording.load,
        "device": device_of(recording, wall),
        "machine": machine_of(recording),
    }


def _flops_by_class(counted: Pass) -> dict[str, int]:
    """Counted FLOPs with fused attention taken apart: what `archcli flops` says of the pass."""
    flops = {op_class.value: 0 for op_class in OpClass}
    for cost in counted.costs():
        flops[cost.op_class.value] += cost.flops
    return flops


def _overhead(recording: Recording) -> float:
    """Traced against plain wall time: the median over the pairs."""
    return median(traced / plain for plain, traced in zip(recording.plain_s, recording.traced_s, strict=True))


def _reliable(recording: Recording, folded: Folded) -> bool:
    sound = not recording.differing and not recording.lost
    return sound and abs(folded.by_class[UNATTRIBUTED].seconds) <= MOST_UNATTRIBUTED * folded.wall_s


def _by_class(recording: Recording, folded: Folded) -> Table:
    shown = [(name, entry) for name, entry in folded.by_class.items() if entry.seconds or entry.bytes]
    shown.sort(key=lambda each: (each[0] in {FRAMEWORK, UNATTRIBUTED}, -each[1].seconds))
    records = [{"class": words(name), **_line(folded, entry)} for name, entry in shown]
    whole = {"class": "plain wall", **_line(folded, folded.whole)}
    title = "Where the time goes, extrapolated" if recording.extrapolated else "Where the time goes"
    if not _reliable(recording, folded):
        title += f": NOT RELIABLE{' HERE' * recording.extrapolated}, see the notes"
    return Table(title, (Column("class", "class"), *_columns(folded)), records, whole)


def _by_operator(folded: Folded, rows: list[Operator], top: int) -> Table:
    shown = rows[: top or None]
    records = [
        {**row, "path": short(row["path"], row["operators"]), "class": words(row["class"])} for row in shown
    ]
    title = (
        "By operator" if len(shown) == len(rows) else f"By operator: the slowest {len(shown)} of {len(rows)}"
    )
    return Table(
        title, (Column("path", "operator"), Column("class", "class", minor=True), *_columns(folded)), records
    )


def _columns(folded: Folded) -> tuple[Column, ...]:
    busy = () if folded.busy_s is None else (BUSY_COLUMN,)
    return (*COLUMNS[:3], *busy, *COLUMNS[3:], *(() if folded.ceilings is None else ROOF_COLUMNS))


def _line(folded: Folded, entry: Entry) -> Figures:
    """An entry's figures, their shares of the whole, its rates and its roof: none where nothing was computed or moved, or no time taken."""
    whole = folded.whole
    roof, share = bound(entry.executed_flops, entry.bytes, entry.seconds, folded.ceilings) or (None, None)
    return {
        "flops": entry.flops,
        "executed_flops": entry.executed_flops,
        "bytes": entry.bytes,
        "seconds": entry.seconds,
        "flop_share": entry.flops / whole.flops if whole.flops else 0.0,
        "byte_share": entry.bytes / whole.bytes if whole.bytes else 0.0,
        "time_share": entry.seconds / whole.seconds,
        "busy_share": entry.operations_s / folded.busy_s
        if folded.busy_s and entry.operations_s is not None
        else None,
        "gflops_per_s": _rate(entry.executed_flops, entry.seconds),
        "gbytes_per_s": _rate(entry.bytes, entry.seconds),
        "intensity": entry.executed_flops / entry.bytes if entry.bytes else None,
        "roof": roof,
        "roof_share": share,
    }


def _rate(amount: int, seconds: float) -> float | None:
    """In 1e9 a second."""
    return amount / seconds / 1e9 if amount and seconds > 0 else None


def _classes(entry: Entry) -> str:
    """The classes an operator's time falls into, the slowest first; of its cost where it took no time."""
    timed = {name: seconds for name, seconds in entry.by_class.items() if seconds} or entry.by_class
    return " + ".join(sorted(timed, key=lambda name: -timed[name]))


def words(name: str) -> str:
    """How a class reads."""
    return (
        name.replace("fused_", "fused ")
        .replace("elementwise", "element-wise")
        .replace(RANDOM, "random numbers")
    )


def _honesty(recording: Recording, folded: Folded) -> Table:
    return facts(
        "How far to trust it",
        ("plain wall, median", folded.wall_s, "seconds"),
        *([] if recording.extrapolated else _spread(recording)),
        ("traced / plain", _overhead(recording), "ratio"),
        ("operations / plain", folded.attributed_share, "share"),
        (
            f"framework ({'the device idle' if is_gpu(recording) else 'Python, dispatch'}, views)",
            folded.by_class[FRAMEWORK].seconds / folded.wall_s,
            "share",
        ),
        ("unattributed", folded.by_class[UNATTRIBUTED].seconds / folded.wall_s, "share"),
        ("torch operations outside of any row", folded.unlabelled_s / folded.wall_s, "share"),
        *counts(recording),
        ("drawing random numbers", folded.by_class[RANDOM].seconds / folded.wall_s, "share"),
        ("page faults per pass", recording.page_faults, "count"),
        ("time in the system, for page faults above all, all threads", recording.system_s, "seconds"),
        ("involuntary context switches per second", round(recording.switches_per_s), "count"),
        ("processes per processor when it began", f"{recording.load:.1f}", "text"),
        *device_lines(recording, folded.wall_s),
        *((name, value, "text") for name, value in recording.machine.items()),
    )


def _spread(recording: Recording) -> Iterator[tuple[str, str, Unit]]:
    yield (
        "plain wall, fastest to slowest",
        f"{min(recording.plain_s) * 1e3:.1f} to {max(recording.plain_s) * 1e3:.1f} ms",
        "text",
    )
    yield "pairs of passes, rejected as disturbed", f"{len(recording.traced_s)}, {recording.rejected}", "text"


def _warnings(recording: Recording, folded: Folded) -> Iterator[str]:
    if recording.partial:
        yield f"PARTIAL: interrupted after {len(recording.traced_s)} pairs of passes."
    if recording.differing:
        expected = "census" if recording.compiled is None else "compiled code"
        yield f"NOT RELIABLE: trace and {expected} differ in {len(recording.differing)} operations: {', '.join(recording.differing[:5])}."
    unattributed = folded.by_class[UNATTRIBUTED].seconds / folded.wall_s
    if abs(unattributed) > MOST_UNATTRIBUTED and recording.extrapolated:
        yield f"NOT RELIABLE HERE: the sum of operations and the slope of the wall time part by {abs(unattributed):.0%}."
    elif abs(unattributed) > MOST_UNATTRIBUTED:
        yield f"NOT RELIABLE: plain and traced passes differ by {unattributed:.0%} of the plain wall time; repeat it."
    if _overhead(recording) > MOST_OVERHEAD:
        yield f"Tracing slowed the pass by {_overhead(recording) - 1:.0%}: small operations look dearer than they are."
    if folded.attributed_share < LEAST_ATTRIBUTED:
        yield f"Operations explain {folded.attributed_share:.0%} of the plain wall time; short passes leave more to the framework."
    if recording.switches_per_s > MOST_SWITCHES_PER_S or recording.load > MOST_LOAD:
        yield (
            f"A BUSY MACHINE: {recording.load:.1f} processes a processor when it began, {recording.switches_per_s:.0f} involuntary context "
            "switches a second. Threads that wait for one another make small operations look dear; repeat it on a quiet one."
        )


def _explanations(counted: Pass, recording: Recording) -> Iterator[str]:
    yield from explained(counted, recording)
    if any(timed.op_class == FUSED for timed in recording.timed):
        yield (
            "Fused attention is one kernel of products and softmax: a class of its own, FLOPs and bytes included. "
            f"--attention eager runs and times them apart{'' if recording.compiled is None else ', where the compiler leaves them so'}."
        )
    attends = {
        row.path
        for row in counted.rows
        if isinstance(row.op, Attend) and any(p.op_class == "elementwise" for p in row.parts)
    }
    if attends & {timed.path for timed in recording.timed if timed.op_class == "elementwise"}:
        yield "Scaling and masking of scores cannot be told from their softcap or bias and are timed with it, as element-wise."
    if any(isinstance(row.op, Linear) and row.op.bias for row in counted.rows):
        yield "A linear layer adds its bias within the product's kernel: all its time is contraction, the bias's FLOPs are element-wise."
    if counted.phase == "train" and any(row.group == LOSS for row in counted.rows):
        yield "Training is forward to the loss of random targets, and backward: no optimizer."
    elif counted.phase == "train":
        yield "Training is forward and backward from a given gradient of the answer: no loss, no optimizer."
    if recording.reached:
        reached = recording.reached.values()
        yield f"Bytes of routed experts are of those that the tokens of this run went to: {min(reached)} to {max(reached)} of a layer's."
    yield "Weights are random."
