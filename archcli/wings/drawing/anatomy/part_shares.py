"""Shares of the distinct parts: what all layers with a mixer or network have of the quantity shown."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from archcli.arith import Number, rounded
from archcli.graph.wired_tape import WiredRow
from archcli.measure.passes import shape_pass
from archcli.measure.survey.show import layer_flops, layer_of, stored_bytes, traced_bytes
from archcli.modules import Model
from archcli.modules.models.layers import folded_path
from archcli.wings.drawing.anatomy.shares import Shown
from archcli.wings.drawing.anatomy.totals import cache_of
from archcli.wings.drawing.drawn import DrawnPart, Figure


class PartPlace(NamedTuple):
    """A part in one of the distinct layers: its path there, and its rows."""

    path: str
    rows: Sequence[WiredRow]


Places = Mapping[str, Sequence[PartPlace]]
"""Where each part is, by its letter."""


def with_shares(
    parts: Iterable[DrawnPart], places: Places, shown: Shown, model: Model, profile: Mapping[str, Any] | None
) -> tuple[DrawnPart, ...]:
    """The parts, each with its share of the quantity, and what of it is printed beside its title."""
    match shown:
        case "params":
            return tuple(
                replace(part, share=_summed(places[part.letter], "params", lambda row: row.params))
                for part in parts
            )
        case "flops":
            return tuple(_with_flops(part, places[part.letter]) for part in parts)
        case "bytes":
            every = [row for of_part in places.values() for place in of_part for row in place.rows]
            sizes = stored_bytes(every, traced_bytes(model, shape_pass(model).rows))
            return _with(parts, lambda of: _summed(places[of], "bytes", lambda row: sizes.get(row.id, 0)))
        case "kv":
            records = cache_of(model).totals["by_path"] if model.caches else []
            return _with(parts, lambda of: _cached(places[of], records))
        case "time":
            seconds = _seconds(places, {} if profile is None else profile)
            return _with(parts, seconds.get)


def _with(parts: Iterable[DrawnPart], share_of: Callable[[str], Figure | None]) -> tuple[DrawnPart, ...]:
    """The parts with their shares, which are also what is printed of them: of all layers together."""
    shares = ((part, share_of(part.letter)) for part in parts)
    return tuple(replace(part, share=share, amount=share) for part, share in shares)


def _summed(places: Sequence[PartPlace], key: str, of_row: Callable[[WiredRow], Number]) -> Figure:
    """A key of `show`, summed over all rows of a part."""
    total = sum(of_row(row) for place in places for row in place.rows)
    return Figure(total, "show", "+".join(place.path for place in places), key)


def _with_flops(part: DrawnPart, places: Sequence[PartPlace]) -> DrawnPart:
    share = _summed(places, "layer_flops*times", lambda row: rounded(layer_flops(row)) * row.times)
    return replace(
        part, share=share, amount=_summed(places[:1], "layer_flops", lambda row: rounded(layer_flops(row)))
    )


def _cached(places: Sequence[PartPlace], records: Sequence[Mapping[str, Any]]) -> Figure | None:
    """Bytes of a part in the cache, of the entries of `kvcache` by path; None where it leaves nothing."""
    indices = [i for i, record in enumerate(records) if any(_is_within(record["path"], of) for of in places)]
    if not indices:
        return None
    total = sum(records[i]["bytes"] for i in indices)
    return Figure(total, "kvcache", "", "+".join(f"by_path.{i}.bytes" for i in indices))


def _is_within(path: str, place: PartPlace) -> bool:
    """Whether an operation of some layer is that of a part in a layer that is like it."""
    stack, number, inside = layer_of(path)
    of_place, _, part = layer_of(place.path)
    layers = place.rows[0].layers or ()
    return stack == of_place and number in map(str, layers) and inside.startswith(f"{part}.")


def _seconds(places: Places, profile: Mapping[str, Any]) -> dict[str, Figure | None]:
    """Seconds of each part by its letter; those that the profile has as one have none."""
    measured: dict[str, float] = defaultdict(float)
    for row in profile.get("rows", ()):
        measured[row["path"]] += row["seconds"] or 0
    timed = {
        letter: list(dict.fromkeys(path for row in _rows(of) if (path := folded_path(row.path)) in measured))
        for letter, of in places.items()
    }
    owners = [path for paths in timed.values() for path in paths]
    return {
        letter: Figure(sum(measured[path] for path in paths), "profile", "+".join(paths), "seconds")
        for letter, paths in timed.items()
        if paths and all(owners.count(path) == 1 for path in paths)
    }


def _rows(places: Iterable[PartPlace]) -> Iterable[WiredRow]:
    return (row for place in places for row in place.rows)
