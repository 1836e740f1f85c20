"""The boxes of a drawing: kinds of layer and parts; of very many the further ones are named alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from archcli.wings.drawing.drawn import NumberedLine
from archcli.wings.drawing.picture.architecture.graph import graph_of
from archcli.wings.drawing.picture.architecture.page.tints import amount_of, share_of, tints
from archcli.wings.drawing.picture.architecture.panels import Drawn, panel, wiring
from archcli.wings.drawing.picture.architecture.style import Words, line_of

if TYPE_CHECKING:
    from archcli.wings.drawing.drawn import Anatomy, DrawnPart, Kind

ELSEWHERE = "other layers or weights are read"
"""What differs where all parts are the same."""
ALL_WHOLE = 2
"""Kinds of layer that are all drawn whole; of more those that differ in their parts alone are named."""
NOTHING = graph_of((), {})
MOST, OF_MANY = 48, 12
"""Kinds of layer, and parts, that are all drawn in full; of more so many are, and the further ones named."""


def kind_boxes(anatomy: Anatomy) -> Sequence[Drawn]:
    """The distinct kinds of layer."""
    full, strengths = _in_full(len(anatomy.kinds)), tints(anatomy)
    drawn = [
        wiring(kind, strengths) if first is kind else _as_another(kind, first)
        for kind, first in drawn_whole(anatomy.kinds[:full])
    ]
    # those that are drawn stand before those that are told
    return sorted([*drawn, *map(_named_kind, anatomy.kinds[full:])], key=lambda box: box.graph is NOTHING)


def drawn_whole(kinds: Sequence[Kind]) -> list[tuple[Kind, Kind]]:
    """(kind, the kind that is drawn whole in its place): itself, or one that differs in parts alone."""
    alike: dict[Any, Kind] = {}
    firsts = [alike.setdefault(_wires(kind), kind) for kind in kinds]
    return [*zip(kinds, firsts if len(kinds) > ALL_WHOLE else kinds, strict=True)]


def _wires(kind: Kind) -> Any:
    """What two kinds have in common that differ in their parts alone: roles and edges, in order."""
    place = {node.id: i for i, node in enumerate(kind.nodes)}
    return tuple(
        (node.role, "" if node.letter else node.label, tuple(place[read] for read in node.reads))
        for node in kind.nodes
    )


def difference(kind: Kind, first: Kind) -> NumberedLine:
    """A kind as its difference from one that is drawn whole: `as layers 0–3, but C for A`."""
    letters = zip((node.letter for node in kind.nodes), (node.letter for node in first.nodes), strict=True)
    changes = dict.fromkeys(f"{of} for {before}" for of, before in letters if of != before)
    word, *numbers = first.title.parts
    return NumberedLine("as ", str(word).lower(), *numbers, f", but {', '.join(changes) or ELSEWHERE}")


def _as_another(kind: Kind, first: Kind) -> Drawn:
    """A kind that another is drawn for."""
    line = difference(kind, first)
    note = ", ".join(row for node in kind.nodes if not node.letter for row in node.rows)
    return Drawn(line_of(kind.title), line_of(kind.times, " ×"), (line,), NOTHING, path=kind.path, note=note)


def part_boxes(anatomy: Anatomy, first: Anatomy | None = None) -> Sequence[Drawn]:
    """The distinct mixers and networks; facts that those of a first model do not have are bold."""
    full = _in_full(len(anatomy.parts))
    shown = [(part, amount_of(part, anatomy.shown), share_of(part, anatomy)) for part in anatomy.parts]
    boxes = [*(panel(*part) for part in shown[:full]), *(_named_part(*part) for part in shown[full:])]
    facts = {fact for part in (first or anatomy).parts for fact in part.lines}
    return [replace(box, changed=frozenset(box.lines) - facts) for box in boxes]


def _in_full(count: int) -> int:
    return count if count <= MOST else OF_MANY


def _named_kind(kind: Kind) -> Drawn:
    """The layers of a kind and the letters of its parts, without its wiring."""
    letters = ", ".join(node.letter for node in kind.nodes if node.letter)
    return Drawn(line_of(kind.title), line_of(letters), (), NOTHING, path=kind.path)


def _named_part(part: DrawnPart, right: Words, note: str) -> Drawn:
    """The letter, name and parameters of a part, without its nodes."""
    return Drawn(line_of(part.title), right, (), NOTHING, part.letter, part.hue, note=note)
