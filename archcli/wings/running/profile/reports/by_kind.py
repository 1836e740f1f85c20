"""The report of an extrapolated profile: figures of each kind of layer, and two estimates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING, Any, cast

from archcli.measure.report import Column, Report, Table, facts
from archcli.wings.running.profile.extrapolate.plan import BEYOND, ENDS, StackPair, StackPlan
from archcli.wings.running.profile.extrapolate.recording import LayerTimes, layer_times
from archcli.wings.running.recording.recording import Recording

if TYPE_CHECKING:
    from archcli.wings.serving.recorded.schema.records import EndsFigures, Estimates, LayerKindFigures, Memory

COLUMNS = (
    Column("kind", "like"),
    Column("what", "kind of layer"),
    Column("layers", "layers", "count"),
    Column("slope_s", "a layer's wall", "seconds"),
    Column("operations_s", "its operations", "seconds"),
    Column("share", "of the whole wall", "share"),
    Column("memory_bytes", "memory taken", "bytes"),
)


def by_kind(report: Report, plan: StackPlan, recordings: Mapping[str, Recording]) -> Report:
    """The report of an extrapolated recording, with the measurements behind it.

    `recordings` are those of the stacks, by name.
    """
    wall, cached = report.totals["wall_s"], list(_cache_warnings(plan))
    ends: EndsFigures = {
        "wall_s": median(recordings[plan.ends.name].plain_s),
        "memory": cast("Memory", plan.ends.memory),
    }
    operations = wall * (report.totals["attributed_share"] + report.totals["framework_share"])
    estimates: Estimates = {"operations_and_framework_s": operations, "slope_s": wall}
    totals: dict[str, Any] = {
        **report.totals,
        "warnings": [*cached, *report.totals["warnings"]],
        # the fewest pairs of any stack
        "pairs": min(len(recording.plain_s) for recording in recordings.values()),
        "estimates": estimates,
        "kinds": [_figures(times, recordings, wall) for times in layer_times(plan, recordings)],
        "ends": ends,
    }
    # the quality table stays the last one
    *shares, quality = report.tables
    return replace(
        report,
        totals=totals,
        tables=(*shares, *kind_tables(totals), quality),
        notes=(*_notes(plan), *cached, *report.notes),
    )


def _figures(times: LayerTimes, recordings: Mapping[str, Recording], wall: float) -> LayerKindFigures:
    pair, kind = times.pair, times.pair.kind
    walls = {
        str(pair.n_layers + i): median(recordings[stack.name].plain_s)
        for i, stack in enumerate((pair.fewer, pair.more))
    }
    return {
        "kind": kind.path,
        "what": kind.description,
        "layers": kind.count,
        "walls_s": walls,
        "slope_s": times.slope_s,
        "operations_s": times.operations_s,
        "by_class_s": times.by_class(),
        "share": kind.count * times.slope_s / wall,
        "memory": cast("Memory", pair.more.memory),
        "experts": pair.more.experts,
        "distinct_experts": pair.more.distinct,
    }


def kind_tables(totals: Mapping[str, Any]) -> Iterator[Table]:
    """The tables of the kinds of layer and of both estimates, from a report's totals."""
    yield _kind_table(totals["kinds"], totals["ends"], totals["wall_s"])
    wall, operations = totals["wall_s"], totals["estimates"]["operations_and_framework_s"]
    yield facts(
        "Two estimates of the whole",
        ("wall: slopes of the layers and the rest", wall, "seconds"),
        ("sum: operations of the layers and the rest, and the framework", operations, "seconds"),
        ("sum / wall", operations / wall, "share"),
        ("pairs of passes of each stack, at least", totals["pairs"], "count"),
    )


def _kind_table(kinds: list[LayerKindFigures], ends: EndsFigures, wall: float) -> Table:
    rest = wall - sum(kind["layers"] * kind["slope_s"] for kind in kinds)
    records: list[dict[str, Any]] = [
        *({**kind, "memory_bytes": kind["memory"]["needed_bytes"]} for kind in kinds),
        {
            "kind": "",
            "what": f"{ENDS}: the rest",
            "slope_s": None,
            "share": rest / wall,
            "memory_bytes": ends["memory"]["needed_bytes"],
        },
    ]
    return Table("By kind of layer", COLUMNS, records)


def _notes(plan: StackPlan) -> Iterator[str]:
    if plan.reason:
        yield plan.reason
    yield (
        "EXTRAPOLATED from small stacks of each kind of layer, embedding and head apart: operators are "
        "those of one layer times the layers, the wall time is what one more layer adds, times the layers, "
        "and the rest. FLOPs and bytes are counted of the whole model."
    )
    for pair in plan.pairs:
        if pair.more.distinct is not None:
            yield _shared_experts(pair)
        elif not pair.n_layers:
            yield f"Two layers like {pair.kind.path} do not fit: the slope is that of one against none."


def _shared_experts(pair: StackPair) -> str:
    experts, distinct = pair.more.experts, pair.more.distinct
    return (
        f"Two layers like {pair.kind.path} do not fit: the {experts} experts of each share the weights of "
        f"{distinct}, every {distinct}th the same. Each still multiplies its own tokens and reads its "
        "matrices from memory, as so many do not stay in a cache."
    )


def _cache_warnings(plan: StackPlan) -> Iterator[str]:
    """A warning if caches hold a much larger part of a stack's weights than of the whole model's.

    Passes repeat: weights that stay in a cache are not read from memory in the next pass.
    """
    of_whole = _share_in_caches(plan.weights_bytes, plan)
    for pair in plan.pairs:
        weights = pair.more.memory["weights_bytes"]
        of_stack = _share_in_caches(weights, plan)
        if of_stack - of_whole > 1 / BEYOND:
            yield (
                f"Caches of {plan.cache_bytes / 2**20:,.1f} MiB may hold {of_stack:.0%} of the weights of "
                f"layers like {pair.kind.path} ({weights / 2**20:,.1f} MiB in the larger stack), and at most "
                f"{of_whole:.1%} of the whole model's: these layers may look faster than they are."
            )


def _share_in_caches(weights_bytes: int, plan: StackPlan) -> float:
    return min(1.0, plan.cache_bytes / max(1, weights_bytes))
