"""Shares of a model's parameters, FLOPs, bytes, cache or time, by kind of part."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from archcli.graph.wired_tape import WiredRow
from archcli.measure.flops import component
from archcli.measure.params import EMBEDDING, HEAD, OTHER_TABLES
from archcli.measure.report import Report
from archcli.modules.models.layers import folded_path
from archcli.modules.spec.trace import ADAPTERS
from archcli.wings.drawing.drawn import Figure, Hue, NumberedLine, Share

Shown = Literal["params", "flops", "bytes", "kv", "time"]
"""The quantity of the shares."""
NAMES: Mapping[Hue, str] = {
    "experts": "routed experts",
    "attention": "attention",
    "recurrent": "recurrent layers",
    "dense": "dense FFN",
    "shared": "shared experts",
}
TABLES, REST = "embedding, head", "norms and more"
TABLE_GROUPS = (EMBEDDING, HEAD, *OTHER_TABLES)
SCORES = "attention_scores"
LETTERS = 4
"""Kinds of attention with as many letters are abbreviations."""
Hues = Mapping[str, Hue]
"""The hue of each row, by its id."""


class ShareName(NamedTuple):
    """A component of the bars: its name and its hue."""

    name: str
    hue: Hue


class Amounts(NamedTuple):
    """Stored and read numbers of a section, with their places in the JSON."""

    command: Literal["params", "kvcache", "flops", "profile"]
    path: str
    stored_key: str
    stored: Any
    read_key: str
    read: Any
    section: ShareName


def section(names: Mapping[str, Hue], group: str) -> ShareName:
    """The section of a group or component whose hue is known."""
    hue = names.get(group, "plain")
    if hue == "dense" and "experts" not in names.values():
        return ShareName("FFN", hue)
    if group == SCORES:
        return ShareName("attention scores", hue)
    if hue != "plain":
        return ShareName(NAMES[hue], hue)
    return ShareName(TABLES if group in TABLE_GROUPS else REST, "plain")


def hues_of(rows: Iterable[WiredRow], hues: Hues, key: Callable[[WiredRow], str]) -> dict[str, Hue]:
    """The hue of each group or component: of most of its parameters, else of most of its rows."""
    tally: dict[str, dict[Hue, tuple[Any, int]]] = {}
    for row in rows:
        of_key = tally.setdefault(key(row), {})
        hue = hues.get(row.id, "plain")
        params, number = of_key.get(hue, (0, 0))
        of_key[hue] = params + (row.params if row.weights else 0), number + 1
    return {name: max(of_key, key=of_key.__getitem__) for name, of_key in tally.items()}


def by_group(
    rows: Sequence[WiredRow], hues: Hues, totals: Mapping[str, Any], stored: str, read: str
) -> tuple[Share, ...]:
    """Shares by group, of two totals of `params` that have an entry for each."""
    names = hues_of(rows, hues, lambda row: row.group)
    amounts = totals[read]
    return _shares(
        Amounts(
            "params", "", f"{stored}.{group}", size, f"{read}.{group}", amounts[group], section(names, group)
        )
        for group, size in totals[stored].items()
    )


def by_component(rows: Sequence[WiredRow], hues: Hues, report: Report) -> tuple[Share, ...]:
    """Shares of FLOPs by component of `flops`."""
    names = hues_of(rows, hues, component)
    key = "matmul_flops"
    return _shares(
        Amounts("flops", row["component"], key, row[key], key, row[key], section(names, row["component"]))
        for row in report.rows
        if row[key]
    )


def by_layers(report: Report) -> tuple[Share, ...]:
    """Shares of the cache by kinds of layer of `kvcache`."""
    return _shares(
        Amounts("kvcache", row["first"], "bytes", row["bytes"], "bytes", row["bytes"], _kept(row))
        for row in report.rows
        if row["bytes"]
    )


def by_operator(rows: Sequence[WiredRow], hues: Hues, profile: Mapping[str, Any]) -> tuple[Share, ...]:
    """Shares of the measured time of a pass: by operators of a saved profile, and what is outside of them."""
    names = hues_of(rows, hues, lambda row: folded_path(row.path))
    groups = {folded_path(row.path): component(row) for row in rows}
    key = "seconds"
    operators = _shares(
        Amounts("profile", row["path"], key, row[key], key, row[key], _timed(names, groups, row["path"]))
        for row in profile["rows"]
        if row[key]
    )
    return (*operators, *_outside(profile["totals"]))


def _outside(totals: Mapping[str, Any]) -> Iterator[Share]:
    """The time of a pass outside of its operators; less than none is not drawn."""
    for name in ("framework", "unattributed"):
        seconds = totals["wall_s"] * totals[f"{name}_share"]
        if seconds > 0:
            figure = Figure(seconds, "profile", "", f"wall_s*{name}_share")
            yield Share(name, "plain", figure, figure)


def _timed(names: Mapping[str, Hue], groups: Mapping[str, str], path: str) -> ShareName:
    group, hue = groups.get(path, ""), names.get(path, "plain")
    return section({**names, group: hue}, group)


def _kept(row: Mapping[str, Any]) -> ShareName:
    """Layers of `kvcache` by their kind and window: `GQA window 512`."""
    hue: Hue = "attention" if row["elements_per_token"] else "recurrent"
    kind = str(row["attention"]).replace("_", " ")
    name = kind.upper() if len(kind) <= LETTERS else kind
    if row["window"] is None:
        return ShareName(name, hue)
    window = Figure(row["window"], "kvcache", row["first"], "window")
    return ShareName(NumberedLine(f"{name} window ", window), hue)


def _shares(entries: Iterable[Amounts]) -> tuple[Share, ...]:
    """The sections, the largest first and the rest last; entries of one section are added up."""
    merged: dict[ShareName, list[Amounts]] = {}
    for entry in entries:
        merged.setdefault(entry.section, []).append(entry)
    shares = [_share(of_section, entries) for of_section, entries in merged.items()]
    return tuple(
        sorted(shares, key=lambda share: (share.hue == "plain", share.name == REST, -share.stored.value))
    )


def _share(of_section: ShareName, entries: Sequence[Amounts]) -> Share:
    first = entries[0]
    # rows are added up by their paths, totals by their keys
    path = "+".join(entry.path for entry in entries) if first.path else ""
    keys = (first.stored_key, first.read_key)
    if not path:
        keys = "+".join(entry.stored_key for entry in entries), "+".join(entry.read_key for entry in entries)
    stored = Figure(sum(entry.stored for entry in entries), first.command, path, keys[0])
    read = Figure(sum(entry.read for entry in entries), first.command, path, keys[1])
    return Share(of_section.name, of_section.hue, stored, read)


def hues_of_part(rows: Iterable[WiredRow], hue: Hue, shared: Iterable[str]) -> Iterator[tuple[str, Hue]]:
    """The hue of each row of a part: its own, or that of the experts or of the shared expert within it."""
    within = tuple(f"{path}." for path in shared)
    for row in rows:
        if row.group == ADAPTERS:
            yield row.id, "plain"
        elif row.experts is not None:
            yield row.id, "experts"
        elif within and row.path.startswith(within):
            yield row.id, "shared"
        else:
            # a router is no expert
            yield row.id, "plain" if hue == "experts" else hue
