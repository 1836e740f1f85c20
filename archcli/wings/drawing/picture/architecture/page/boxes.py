"""The boxes of a drawing: kinds of layer and parts; of very many the further ones are named alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from archcli.wings.drawing.picture.architecture.graph import graph_of
from archcli.wings.drawing.picture.architecture.page.tints import amount_of, share_of, tints
from archcli.wings.drawing.picture.architecture.panels import Drawn, panel, wiring
from archcli.wings.drawing.picture.architecture.style import Words, line_of

if TYPE_CHECKING:
    from archcli.wings.drawing.drawn import Anatomy, DrawnPart, Kind

NOTHING = graph_of((), {})
MOST, OF_MANY = 48, 12
"""Kinds of layer, and parts, that are all drawn in full; of more so many are, and the further ones named."""


def kind_boxes(anatomy: Anatomy) -> Sequence[Drawn]:
    """The distinct kinds of layer."""
    full = _in_full(len(anatomy.kinds))
    strengths = tints(anatomy)
    drawn = [wiring(kind, strengths) for kind in anatomy.kinds[:full]]
    return [*drawn, *map(_named_kind, anatomy.kinds[full:])]


def part_boxes(anatomy: Anatomy) -> Sequence[Drawn]:
    """The distinct mixers and networks."""
    full = _in_full(len(anatomy.parts))
    shown = [(part, amount_of(part, anatomy.shown), share_of(part, anatomy)) for part in anatomy.parts]
    return [*(panel(*part) for part in shown[:full]), *(_named_part(*part) for part in shown[full:])]


def _in_full(count: int) -> int:
    return count if count <= MOST else OF_MANY


def _named_kind(kind: Kind) -> Drawn:
    """The layers of a kind and the letters of its parts, without its wiring."""
    letters = ", ".join(node.letter for node in kind.nodes if node.letter)
    return Drawn(line_of(kind.title), line_of(letters), (), NOTHING, path=kind.path)


def _named_part(part: DrawnPart, right: Words, note: str) -> Drawn:
    """The letter, name and parameters of a part, without its nodes."""
    return Drawn(line_of(part.title), right, (), NOTHING, part.letter, part.hue, note=note)
