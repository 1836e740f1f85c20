"""The report of a profile of one model: by class, by operator, and the quality of the measurement."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from archcli.graph import OpClass, Row
from archcli.measure.passes import SCORES, Pass, usual_sizes
from archcli.measure.report import Column, Fact, Report, Table, Unit, facts
from archcli.modules import Model
from archcli.modules.spec.trace import LOSS
from archcli.wings.running.profile.charges import abbreviated
from archcli.wings.running.profile.fold import Breakdown, Tally, bound, fold
from archcli.wings.running.profile.quality import (
    fastest_to_slowest,
    is_reliable,
    overhead_ratio,
    warnings_of,
)
from archcli.wings.running.profile.reports.sections import (
    Section,
    compiled_section,
    device_section,
    group_members,
    is_gpu,
    machine_figures,
    where_the_time_goes,
)
from archcli.wings.running.recording.recording import Recording
from archcli.wings.serving.recorded.classes import (
    COMMUNICATION,
    FRAMEWORK,
    FUSED,
    RANDOM,
    UNATTRIBUTED,
    label_of,
)
from archcli.wings.serving.recorded.machine import Ceilings

if TYPE_CHECKING:
    from archcli.wings.serving.recorded.schema.documents import PassFigures
    from archcli.wings.serving.recorded.schema.parts import PartFigures, PartTotals
    from archcli.wings.serving.recorded.schema.records import DisturbanceFigures, Figures, Operator

COLUMNS = (
    Column("flop_share", "FLOP share", "share"),
    Column("byte_share", "byte share", "share"),
    Column("time_share", "time share", "share"),
    Column("seconds", "time", "seconds"),
    Column("gflops_per_s", "GFLOP/s", minor=True),
    Column("gbytes_per_s", "GB/s", minor=True),
)
BUSY_COLUMN = Column("busy_share", "of busy device", "share")
ROOFLINE_COLUMNS = (
    Column("intensity", "FLOP/byte", minor=True),
    Column("roof", "roof", minor=True),
    Column("roof_share", "of it", "share", minor=True),
)


def columns_of(breakdown: Breakdown) -> Iterator[Column]:
    """The columns of a breakdown: with ceilings also the roofline, on a GPU the share of its busy time."""
    shares, rates = COLUMNS[:3], COLUMNS[3:]
    yield from shares
    if breakdown.busy_s is not None:
        yield BUSY_COLUMN
    yield from rates
    if breakdown.ceilings is not None:
        yield from ROOFLINE_COLUMNS


def figures_of(breakdown: Breakdown, tally: Tally) -> Figures:
    """The figures of a part of a breakdown.

    Rates are None where nothing was computed or moved, or no time taken.
    """
    whole = breakdown.whole
    exchanged = set(tally.by_class) == {COMMUNICATION}  # a link limits it, not this machine
    ceilings = None if exchanged else breakdown.ceilings
    roof, roof_share = bound(tally.executed_flops, tally.bytes, tally.seconds, ceilings) or (None, None)
    return {
        "flops": tally.flops,
        "executed_flops": tally.executed_flops,
        "bytes": tally.bytes,
        "seconds": tally.seconds,
        "flop_share": tally.flops / whole.flops if whole.flops else 0.0,
        "byte_share": tally.bytes / whole.bytes if whole.bytes else 0.0,
        "time_share": tally.seconds / whole.seconds,
        "busy_share": _busy_share(breakdown, tally),
        "gflops_per_s": _giga_per_s(tally.executed_flops, tally.seconds),
        # beside computing bytes move in hidden seconds, too
        "gbytes_per_s": _giga_per_s(tally.bytes, tally.under_way_s or tally.seconds),
        "intensity": tally.executed_flops / tally.bytes if tally.bytes else None,
        "roof": roof,
        "roof_share": roof_share,
    }


def _busy_share(breakdown: Breakdown, tally: Tally) -> float | None:
    seconds = tally.operations_s
    return seconds / breakdown.busy_s if breakdown.busy_s and seconds is not None else None


def _giga_per_s(amount: int, seconds: float) -> float | None:
    # what is unattributed may have less than no seconds
    return amount / seconds / 1e9 if amount and seconds > 0 else None


def notes_of(counted: Pass, recording: Recording) -> Iterator[str]:
    """How to read the figures of a pass."""
    yield from _on_fusion(counted, recording)
    yield from _on_training(counted)
    if recording.reached:
        least, most = min(recording.reached.values()), max(recording.reached.values())
        yield (
            "Bytes of routed experts are of those that the tokens of this run went to: "
            f"{least} to {most} of a layer's."
        )
    yield "Weights are random."


def _on_fusion(counted: Pass, recording: Recording) -> Iterator[str]:
    if any(timed.op_class == FUSED for timed in recording.timed):
        where = "" if recording.compiled is None else ", where the compiler leaves them so"
        yield (
            "Fused attention is one kernel of products and softmax: a class of its own, FLOPs and bytes "
            f"included. --attention eager runs and times them apart{where}."
        )
    elementwise = {timed.path for timed in recording.timed if timed.op_class == OpClass.ELEMENTWISE}
    if any(row.path in elementwise and _changes_scores(row) for row in counted.rows):
        yield (
            "Scaling and masking of scores cannot be told from their softcap or bias and are timed with it, "
            "as element-wise."
        )
    if any(_adds_bias_to_product(row) for row in counted.rows):
        yield (
            "A linear layer adds its bias within the product's kernel: all its time is of matrix products, "
            "the bias's FLOPs are element-wise."
        )


def _changes_scores(row: Row) -> bool:
    """Whether a row is attention with element-wise parts: a softcap, ALiBi, a bias, or ReLU."""
    has_scores = row.op.component == SCORES
    return has_scores and any(part.op_class is OpClass.ELEMENTWISE for part in row.parts)


def _adds_bias_to_product(row: Row) -> bool:
    return "bias" in row.weights and any(part.op_class is OpClass.CONTRACTION for part in row.parts)


def _on_training(counted: Pass) -> Iterator[str]:
    if counted.phase != "train":
        return
    if any(row.group == LOSS for row in counted.rows):
        yield "Training is forward to the loss of random targets, and backward: no optimizer."
    else:
        yield "Training is forward and backward from a given gradient of the answer: no loss, no optimizer."


def class_table(
    title: str, columns: Iterable[Column], totals: Mapping[str, Any], whole: Mapping[str, Any] | None = None
) -> Table:
    """Figures by class of operation, framework and the unattributed rest last; `whole` is the footer."""
    classes = [
        {**figures, "class": name}
        for name, figures in totals["by_class"].items()
        if figures["seconds"] or figures["bytes"]
    ]
    classes.sort(key=lambda record: (record["class"] in {FRAMEWORK, UNATTRIBUTED}, -record["seconds"]))
    if not totals["reliable"]:
        title += f": NOT RELIABLE{' HERE' * totals['extrapolated']}, see the notes"
    return Table(title, (Column("class", "class"), *columns), _labelled(classes), whole)


def part_tables(columns: Iterable[Column], totals: Mapping[str, Any]) -> Iterator[Table]:
    """Figures by part of a multimodal model, in the order of the pass; no table for a text model."""
    if "by_part" in totals:
        records = [{**figures, "part": part} for part, figures in totals["by_part"].items()]
        yield Table("By part", (Column("part", "part"), *columns), records)


def operator_table(columns: Iterable[Column], operators: Sequence[Mapping[str, Any]], top: int) -> Table:
    """Figures by operator, the slowest first; `top` 0 shows all."""
    slowest = operators[: top or None]
    title = "By operator"
    if len(slowest) < len(operators):
        title += f": the slowest {len(slowest)} of {len(operators)}"
    columns = (Column("path", "operator"), Column("class", "class", minor=True), *columns)
    return Table(title, columns, _labelled(slowest))


def _labelled(records: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{**record, "class": label_of(record["class"])} for record in records]


DISTURBANCE: Mapping[str, tuple[str, Unit]] = {
    "others": ("processors that other processes kept busy", "text"),
    "stolen": ("processors that the host of this virtual machine took", "text"),
    "waited_share": ("threads waiting for a processor, of their time", "share"),
    "spread": ("plain wall, middle half of the passes, of the median", "share"),
}
"""Disturbances of the plain passes, by JSON key."""


def quality_table(
    totals: Mapping[str, Any],
    walls: Iterable[Fact],
    *,
    trace: Iterable[Fact] = (),
    device: Iterable[Fact] = (),
    began: str = "when they began",
) -> Table:
    """How far to trust a report: `walls` of its passes, what explains them, and the machine's settings.

    `trace` are lines on what was found in it, `device` those on a GPU.
    """
    machine = {name: value for name, value in totals["machine"].items() if name != "states"}
    framework = f"framework ({'the device idle' if is_gpu(machine) else 'Python, dispatch'}, views)"
    return facts(
        "How far to trust it",
        *walls,
        ("traced / plain", totals["overhead_ratio"], "ratio"),
        ("operations / plain", totals["attributed_share"], "share"),
        (framework, totals["framework_share"], "share"),
        ("unattributed", totals["unattributed_share"], "share"),
        ("torch operations outside of any row", totals["unlabelled_share"], "share"),
        *trace,
        ("page faults per pass", totals["page_faults_per_pass"], "count"),
        (
            "time in the system, for page faults above all, all threads",
            totals["system_s_per_pass"],
            "seconds",
        ),
        ("involuntary context switches per second", round(totals["context_switches_per_s"]), "count"),
        (f"processes per processor {began}", f"{totals['load_per_processor']:.1f}", "text"),
        # a profile of an older archcli has none
        *_disturbance_facts(totals.get("disturbance", {})),
        *device,
        *((name, value, "text") for name, value in machine.items()),
    )


def _disturbance_facts(figures: Mapping[str, Any]) -> Iterator[Fact]:
    """Disturbances of the plain passes, as far as the system reports them."""
    for key, (name, unit) in DISTURBANCE.items():
        value = figures.get(key)
        if value is not None:
            yield name, f"{value:.2f} of {figures['processors']}" if unit == "text" else value, unit


CONVENTION = (
    "FLOP = 2 x multiply-add. FLOPs and bytes are counted, exact for the mask; time is measured. Time "
    "shares are of the plain wall time and add up to 100% with framework and unattributed. GFLOP/s are of "
    "what was executed. Bytes are of operations that run one by one; a fused kernel moves fewer."
)


def usual_inputs(phase: str) -> dict[str, Any]:
    """The default inputs of a run in this phase, which a heading leaves out."""
    return {**usual_sizes(phase), "device": "cpu", "attention": "sdpa"}


def profile_of(
    model: Model,
    counted: Pass,
    recording: Recording,
    inputs: Mapping[str, Any],
    depth: int = 0,
    top: int = 0,
    ceilings: Ceilings | None = None,
) -> Report:
    """The report of a pass that was counted and timed; `depth` and `top` 0 show everything."""
    breakdown = fold(model, counted, recording, inputs["dtype"], depth, ceilings)
    compiled, device = compiled_section(counted, recording), device_section(recording, breakdown.wall_s)
    totals = _totals(counted, recording, breakdown, compiled, device)
    operators, columns = _operators(recording, breakdown, depth), tuple(columns_of(breakdown))
    title = f"Where the time goes{', extrapolated' * recording.extrapolated}"
    whole = {"class": "plain wall", **figures_of(breakdown, breakdown.whole)}
    named = [{**row, "path": abbreviated(row["path"], row["operators"])} for row in operators]
    drawing: Fact = ("drawing random numbers", breakdown.share_of(RANDOM), "share")
    return Report(
        command="profile",
        model={"name": model.name, "source": model.source},
        inputs=inputs,
        usual=usual_inputs(inputs["phase"]),
        convention=CONVENTION,
        totals=totals,
        rows=operators,
        tables=(
            class_table(title, columns, totals, whole),
            *part_tables(columns, totals),
            operator_table(columns, named, top),
            quality_table(
                totals,
                _walls(recording, breakdown),
                trace=(*compiled.facts, drawing),
                device=device.facts,
                began="when it began",
            ),
        ),
        notes=(*totals["warnings"], *device.notes, *compiled.notes, *notes_of(counted, recording)),
        headline=where_the_time_goes(totals),
    )


def _walls(recording: Recording, breakdown: Breakdown) -> Iterator[Fact]:
    yield "plain wall, median", breakdown.wall_s, "seconds"
    if not recording.extrapolated:
        pairs = f"{len(recording.traced_s)}, {recording.rejected}"
        yield "plain wall, fastest to slowest", fastest_to_slowest(recording), "text"
        yield "pairs of passes, rejected as disturbed", pairs, "text"


def _operators(recording: Recording, breakdown: Breakdown, depth: int) -> list[Operator]:
    """A record per operator or fused group, the slowest first."""
    groups = group_members(recording, depth)
    rows: list[Operator] = [
        {
            "path": path,
            "operators": groups.get(path),
            "class": _classes(tally),
            **figures_of(breakdown, tally),
        }
        for path, tally in breakdown.by_operator.items()
    ]
    return sorted(rows, key=lambda row: -row["seconds"])


def _classes(tally: Tally) -> str:
    """The classes of an operator's time, the slowest first; where it took no time, those of its cost."""
    timed = {name: seconds for name, seconds in tally.by_class.items() if seconds} or tally.by_class
    return " + ".join(sorted(timed, key=lambda name: -timed[name]))


def _totals(
    counted: Pass, recording: Recording, breakdown: Breakdown, compiled: Section, device: Section
) -> PassFigures:
    matmul, rest = counted.flops()
    by_class = breakdown.by_class.items()
    return {
        "wall_s": breakdown.wall_s,
        "attributed_share": breakdown.attributed_share,
        "framework_share": breakdown.share_of(FRAMEWORK),
        "unattributed_share": breakdown.share_of(UNATTRIBUTED),
        "unlabelled_share": breakdown.unlabelled_s / breakdown.wall_s,
        "overhead_ratio": overhead_ratio(recording),
        "reliable": is_reliable(recording, breakdown),
        "matmul_flops": matmul,
        "other_flops": rest,
        "flops_by_class": _counted_by_class(counted),
        "executed_flops": breakdown.whole.executed_flops,
        "bytes": breakdown.whole.bytes,
        "by_class": {name: figures_of(breakdown, tally) for name, tally in by_class},
        **_by_part(breakdown),
        "ceilings": breakdown.ceilings,
        "processes": 1,
        "pairs": len(recording.traced_s),
        "pairs_rejected": recording.rejected,
        "partial": recording.partial,
        "extrapolated": recording.extrapolated,
        "compiled": compiled.figures,
        "plain_s": list(recording.plain_s),
        "traced_s": list(recording.traced_s),
        "operations_executed": recording.executed,
        "operations_differing": list(recording.differing),
        "launches_lost": list(recording.lost),
        "page_faults_per_pass": recording.page_faults,
        "system_s_per_pass": recording.system_s,
        "context_switches_per_s": recording.switches_per_s,
        "load_per_processor": recording.load,
        "disturbance": cast("DisturbanceFigures", recording.disturbance._asdict()),
        "warnings": list(warnings_of(recording, breakdown)),
        "device": device.figures,
        "machine": machine_figures(recording),
    }


def _by_part(breakdown: Breakdown) -> PartTotals:
    """The figures of each part; empty for a model of one part."""
    tallies = breakdown.by_part.items()
    figures: dict[str, PartFigures] = {
        part: {**figures_of(breakdown, tally), "matmul_flops": tally.matmul_flops} for part, tally in tallies
    }
    return {"by_part": figures} if figures else {}


def _counted_by_class(counted: Pass) -> dict[str, int]:
    """Counted FLOPs by class with fused attention taken apart, as `archcli flops` has them."""
    flops = {op_class.value: 0 for op_class in OpClass}
    for cost in counted.costs():
        flops[cost.op_class.value] += cost.flops
    return flops
