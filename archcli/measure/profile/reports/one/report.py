"""The report of a profile of one model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from archcli.graph import OpClass
from archcli.measure.passes import Pass
from archcli.measure.profile.fold import Breakdown, Tally, fold
from archcli.measure.profile.quality import is_reliable, overhead_ratio
from archcli.measure.profile.reports.compiled import compiled_figures, group_members
from archcli.measure.profile.reports.disturbance import disturbance_figures
from archcli.measure.profile.reports.gpu import (
    device_figures,
    device_notes,
    machine_figures,
)
from archcli.measure.profile.reports.headings import usual_inputs
from archcli.measure.profile.reports.one.figures import figures_of
from archcli.measure.profile.reports.one.notes import notes_of
from archcli.measure.profile.reports.one.tables import class_table, operator_table, quality_table
from archcli.measure.profile.schema.figures import Operator
from archcli.measure.profile.schema.profile import PassFigures
from archcli.measure.profile.warnings import warnings_of
from archcli.measure.report import Report
from archcli.modules import Model
from archcli.recording.ceilings import Ceilings
from archcli.recording.classes import FRAMEWORK, UNATTRIBUTED
from archcli.recording.recording import Recording

CONVENTION = (
    "FLOP = 2 x multiply-add. FLOPs and bytes are counted, exact for the mask; time is measured. Time "
    "shares are of the plain wall time and add up to 100% with framework and unattributed. GFLOP/s are of "
    "what was executed. Bytes are of operations that run one by one; a fused kernel moves fewer."
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
    """The report of a pass that was counted and timed; `depth` and `top` 0 show everything."""
    breakdown = fold(model, counted, recording, inputs["dtype"], depth, ceilings)
    operators = _operators(recording, breakdown, depth)
    return Report(
        command="profile",
        model={"name": model.name, "source": model.source},
        inputs=inputs,
        usual=usual_inputs(inputs["phase"]),
        convention=CONVENTION,
        totals=_totals(counted, recording, breakdown),
        rows=operators,
        tables=(
            class_table(recording, breakdown),
            operator_table(breakdown, operators, top),
            quality_table(recording, breakdown),
        ),
        notes=(
            *warnings_of(recording, breakdown),
            *device_notes(recording),
            *notes_of(counted, recording),
        ),
    )


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


def _totals(counted: Pass, recording: Recording, breakdown: Breakdown) -> PassFigures:
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
        "ceilings": breakdown.ceilings,
        "processes": 1,
        "pairs": len(recording.traced_s),
        "pairs_rejected": recording.rejected,
        "partial": recording.partial,
        "extrapolated": recording.extrapolated,
        "compiled": compiled_figures(recording.compiled),
        "plain_s": list(recording.plain_s),
        "traced_s": list(recording.traced_s),
        "operations_executed": recording.executed,
        "operations_differing": list(recording.differing),
        "launches_lost": list(recording.lost),
        "page_faults_per_pass": recording.page_faults,
        "system_s_per_pass": recording.system_s,
        "context_switches_per_s": recording.switches_per_s,
        "load_per_processor": recording.load,
        "disturbance": disturbance_figures(recording.disturbance),
        "warnings": list(warnings_of(recording, breakdown)),
        "device": device_figures(recording, breakdown.wall_s),
        "machine": machine_figures(recording),
    }


def _counted_by_class(counted: Pass) -> dict[str, int]:
    """Counted FLOPs by class with fused attention taken apart, as `archcli flops` has them."""
    flops = {op_class.value: 0 for op_class in OpClass}
    for cost in counted.costs():
        flops[cost.op_class.value] += cost.flops
    return flops
