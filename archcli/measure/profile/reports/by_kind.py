"""What a report says of an extrapolation: each kind of layer with its own figures, both estimates, and how its stacks were made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING, Any, cast

from archcli.measure.profile.extrapolate.plan import BEYOND, ENDS, Pair, Plan
from archcli.measure.profile.extrapolate.stacks import PerLayer, layers_of
from archcli.measure.profile.schema.base import Memory
from archcli.measure.profile.schema.kinds import Ends, Estimates, Kind
from archcli.measure.report import Column, Report, Table, facts

if TYPE_CHECKING:
    from archcli.recording.recording import Recording

COLUMNS = (
    Column("kind", "like"),
    Column("what", "kind of layer"),
    Column("layers", "layers", "count"),
    Column("slope_s", "a layer's wall", "seconds"),
    Column("operations_s", "its operations", "seconds"),
    Column("share", "of the whole wall", "share"),
    Column("memory_bytes", "memory taken", "bytes"),
)


def by_kind(report: Report, plan: Plan, recordings: Mapping[str, Recording], cache: int) -> Report:
    """The report of an extrapolated recording, with what it was made of."""
    wall = report.totals["wall_s"]
    kinds = [_record(each, recordings, wall) for each in layers_of(plan, recordings)]
    ends: Ends = {
        "wall_s": median(recordings[plan.ends.name].plain_s),
        "memory": cast("Memory", plan.ends.memory),
    }
    operations = wall * (report.totals["attributed_share"] + report.totals["framework_share"])
    estimates: Estimates = {"operations_and_framework_s": operations, "slope_s": wall}
    totals: dict[str, Any] = {
        **report.totals,
        "pairs": _pairs(recordings),
        "estimates": estimates,
        "kinds": kinds,
        "ends": ends,
    }
    *shares, honesty = report.tables
    return replace(
        report,
        totals=totals,
        tables=(*shares, *tables_of(totals), honesty),
        notes=(*_notes(plan), *_doubts(plan, cache), *report.notes),
    )


def _record(each: PerLayer, recordings: Mapping[str, Recording], wall: float) -> Kind:
    pair = each.pair
    walls = {
        str(pair.n_layers + i): median(recordings[small.name].plain_s)
        for i, small in enumerate((pair.fewer, pair.more))
    }
    return {
        "kind": pair.kind.path,
        "what": pair.kind.what,
        "layers": pair.kind.count,
        "walls_s": walls,
        "slope_s": each.slope_s,
        "operations_s": each.operations_s,
        "by_class_s": each.by_class(),
        "share": pair.kind.count * each.slope_s / wall,
        "memory": cast("Memory", pair.more.memory),
        "experts": pair.more.experts,
        "distinct_experts": pair.more.distinct,
    }


def _pairs(recordings: Mapping[str, Recording]) -> int:
    """Pairs of passes of the stack that has the fewest."""
    return min(len(each.plain_s) for each in recordings.values())


def tables_of(totals: Mapping[str, Any]) -> Iterator[Table]:
    """Each kind of layer, and both estimates."""
    yield _kinds(totals["kinds"], totals["ends"], totals["wall_s"])
    wall, operations = totals["wall_s"], totals["estimates"]["operations_and_framework_s"]
    yield facts(
        "Two estimates of the whole",
        ("wall: slopes of the layers and the rest", wall, "seconds"),
        ("sum: operations of the layers and the rest, and the framework", operations, "seconds"),
        ("sum / wall", operations / wall, "share"),
        ("pairs of passes of each stack, at least", totals["pairs"], "count"),
    )


def _kinds(kinds: list[Kind], ends: Ends, wall: float) -> Table:
    records: list[dict[str, Any]] = [
        {**kind, "memory_bytes": kind["memory"]["needed_bytes"]} for kind in kinds
    ]
    rest = wall - sum(kind["layers"] * kind["slope_s"] for kind in kinds)
    records.append(
        {
            "kind": "",
            "what": f"{ENDS}: the rest",
            "slope_s": None,
            "share": rest / wall,
            "memory_bytes": ends["memory"]["needed_bytes"],
        }
    )
    return Table("By kind of layer", COLUMNS, records)


def _notes(plan: Plan) -> Iterator[str]:
    if plan.reason:
        yield plan.reason
    yield (
        "EXTRAPOLATED from small stacks of each kind of layer, embedding and head apart: operators are those of one layer times the "
        "layers, the wall time is what one more layer adds, times the layers, and the rest. FLOPs and bytes are counted of the whole model."
    )
    for pair in plan.pairs:
        kind = pair.kind
        if pair.more.distinct is not None:
            yield _shares(pair)
        elif not pair.n_layers:
            yield f"Two layers like {kind.path} do not fit: the slope is that of one against none."


def _shares(pair: Pair) -> str:
    experts, distinct = pair.more.experts, pair.more.distinct
    return (
        f"Two layers like {pair.kind.path} do not fit: the {experts} experts of each share the weights of {distinct}, every {distinct}th "
        "the same. Each still multiplies its own tokens and reads its matrices from memory, as so many do not stay in a cache."
    )


def _doubts(plan: Plan, cache: int) -> Iterator[str]:
    for pair in plan.pairs:
        weights = pair.more.memory["weights_bytes"]
        if weights < BEYOND * cache:
            yield (
                f"Weights of layers like {pair.kind.path}, {weights / 2**20:,.1f} MiB in the larger stack, may stay in this machine's "
                f"cache of {cache / 2**20:,.1f} MiB, where those of the whole model may not: they may look faster than they are."
            )
