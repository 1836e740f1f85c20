"""Tints: the opacity of a part's colour by its share, and the amount printed beside its title."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from archcli.wings.drawing.picture.architecture.numbers import concrete, most, written
from archcli.wings.drawing.picture.architecture.page.foot import UNITS
from archcli.wings.drawing.picture.architecture.style import Words, line_of

if TYPE_CHECKING:
    from archcli.wings.drawing.drawn import Anatomy, DrawnPart

PALE = 0.25
"""The opacity for a share near 0; a part without a share has no tint."""
MORE = {
    "params": "more parameters",
    "flops": "more FLOPs",
    "bytes": "more bytes",
    "kv": "more cache",
    "time": "more time",
}
WHOLES = {
    "params": "parameters",
    "flops": "FLOPs",
    "bytes": "bytes of the weights",
    "kv": "cache",
    "time": "measured time",
}
OF_ONE = ("params", "flops")
"""Quantities that a panel prints of one layer; others are those of all layers with the part."""


def tints(anatomy: Anatomy) -> Mapping[str, Any]:
    """The opacity of each part's tint by its letter: linear from nothing up to the largest share."""
    shares = {part.letter: part.share.value for part in anatomy.parts if part.share is not None}
    largest = most(0, *shares.values()) if shares else 0
    if not concrete(largest):
        return {part.letter: 1 for part in anatomy.parts}
    return {
        part.letter: PALE + (1 - PALE) * shares[part.letter] / largest if part.letter in shares else 0
        for part in anatomy.parts
    }


def amount_of(part: DrawnPart, shown: str) -> Words:
    """The amount beside a panel's title: of one layer, or `in all` of the layers with the part."""
    if shown == "params":
        return line_of(part.params, " params", unit="count")
    if part.amount is None:
        return ()
    amount = line_of(part.amount, unit=UNITS[shown])
    return amount if shown in OF_ONE else line_of(amount, " in all")


def share_of(part: DrawnPart, anatomy: Anatomy) -> str:
    """The share of the whole, as a tooltip; empty where there is none."""
    whole = sum(share.stored.value for share in anatomy.shares)
    if part.share is None or not concrete(whole):
        return ""
    of_whole = written(part.share.value / whole, "share")
    return f"all layers with {part.letter}: {of_whole} of the {WHOLES[anatomy.shown]}"


def has_tints(anatomy: Anatomy) -> bool:
    """Whether tints of parts differ."""
    return len({f"{concrete(tint):.2f}" for tint in tints(anatomy).values()}) > 1
