"""The fewest rules of a `quantization` that give every matrix its format, the broad ones first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any, NamedTuple

from archcli.load.huggingface.quantization.scheme import AS_IT_IS
from archcli.modules.spec.unread import UNREAD
from archcli.modules.stored.formats import Packing


class Decision(NamedTuple):
    """The format of a matrix, with its group (`ffn`), its path (* for the layer) and its layers."""

    group: str
    path: str
    layers: range | None
    packing: Packing


def rules(decisions: Iterable[Decision]) -> dict[str, Any] | None:
    """The `quantization` with the fewest rules; None if nothing is packed.

    Every format is tried as the usual one, and the rules are the exceptions to it.
    """
    decisions = list(decisions)
    formats = dict.fromkeys(decision.packing for decision in decisions)
    if all(packing == AS_IT_IS for packing in formats):
        return None
    tried = [(usual, list(_exceptions(decisions, usual))) for usual in formats]
    # of equally few rules those whose usual format packs
    usual, exceptions = min(tried, key=lambda pair: (len(pair[1]), pair[0] == AS_IT_IS))
    return {**_fields(usual, Packing("dtype")), "bits": usual.bits} | (
        {"rules": exceptions} if exceptions else {}
    )


def _exceptions(decisions: list[Decision], usual: Packing) -> Iterator[dict[str, Any]]:
    """The rules beside a usual format: by group, else by path, else by layers of a path."""
    groups: dict[str, list[Decision]] = {}
    steps: dict[str, set[str]] = {}
    for decision in decisions:
        groups.setdefault(decision.group, []).append(decision)
        steps.setdefault(decision.group, set()).update(decision.path.split("."))
    # what no pass reads keeps its dtype where no rule names it, and its group has tables as well
    # the last rule that names a matrix decides, so a group within another comes after it
    broad = {name for name in groups if any(name in steps[group] for group in groups if group != name)}
    narrow: list[str] = []
    named: set[str] = set()
    for group in sorted(groups, key=lambda name: name not in broad):
        packings = {decision.packing for decision in groups[group]}
        if len(packings) > 1 or group == UNREAD:
            narrow.append(group)
        elif packings != {usual} or named & steps[group]:
            named.add(group)
            yield {"match": group, **_settings(packings.pop(), usual)}
    for group in narrow:
        yield from _by_path(groups[group], usual, everything=bool(named & steps[group]))


def _by_path(group: list[Decision], usual: Packing, *, everything: bool) -> Iterator[dict[str, Any]]:
    """The rules of a group of several formats; with `everything` also for what has the usual one."""
    paths: dict[str, list[Decision]] = {}
    for decision in group:
        paths.setdefault(decision.path, []).append(decision)
    # a rule of a path names what is below it, too, and one called as the group all of it (lm_head)
    shortest = sorted(paths.items(), key=lambda item: (item[0] != item[1][0].group, item[0].count(".")))
    everything = everything or group[0].group in paths
    ruled: list[str] = []
    for path, matrices in shortest:
        here = everything or any(f"{above}." in f"{path}." for above in ruled)
        packings = {decision.packing for decision in matrices}
        unruled = AS_IT_IS if matrices[0].group == UNREAD else usual
        if len(packings) == 1:
            [packing] = packings
            if packing != unruled or here:
                ruled.append(path)
                yield {"match": path, **_settings(packing, usual)}
            continue
        ruled.append(path)
        formats = {n: decision.packing for decision in matrices for n in decision.layers or ()}
        for packing, first, last in _runs(formats):
            if packing != unruled or here:
                span = str(first) if first == last else f"{first}-{last}"
                yield {"match": path.replace("layers.*", f"layers.{span}"), **_settings(packing, usual)}


def _runs(formats: dict[int, Packing]) -> Iterator[tuple[Packing, int, int]]:
    """(format, first, last) of neighbouring layers of one format, those without the matrix passed over."""
    for packing, run in groupby(sorted(formats), key=lambda n: formats[n]):
        numbers = list(run)
        yield packing, numbers[0], numbers[-1]


def _settings(packing: Packing, usual: Packing) -> dict[str, Any]:
    """The fields of a rule; the usual format stands for those left out."""
    if packing == AS_IT_IS:
        return {"bits": "dtype"}
    return {"bits": packing.bits, **_fields(packing, usual)}


def _fields(packing: Packing, usual: Packing) -> dict[str, Any]:
    """The fields besides bits that differ from the usual format."""
    return {
        name: value
        for name, value, default in zip(Packing._fields, packing, usual, strict=True)
        if value != default and name != "bits"
    }
