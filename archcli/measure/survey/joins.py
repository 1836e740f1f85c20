"""Joins: where vectors enter the layers of a stack and leave them, besides the residual stream."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from archcli.graph.wired_tape import source_row
from archcli.measure.survey.wired import wired_forward

ENCODER, PROJECTOR = "tower.", "projector"
"""The beginning of the paths of a tower's encoder, and the module that its vectors pass."""
FEW_NAMED, MOST_NAMED = 2, 6
"""The most layers in a row, and the most layers at all, that are named one by one."""


class Joins(NamedTuple):
    """Lines that enter the layers of a stack and leave them, by the numbers of the layers.

    reads: layers that read the vectors of an encoder or a tower.
    added: layers behind which vectors of a tower are added.
    taken: layers behind which states are taken for the projector.
    tapped: layers behind which states are taken for projectors of their own.
    crosses: whether the vectors of this tower are read by layers, and stand in no token's place.
    unread: from which layer on nothing reads the states.
    idle: modules behind the layers whose output nothing reads.
    notes: all of this in words.
    """

    reads: tuple[int, ...] = ()
    added: tuple[int, ...] = ()
    taken: tuple[int, ...] = ()
    tapped: tuple[int, ...] = ()
    crosses: bool = False
    unread: int | None = None
    idle: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def model_joins(model: Any, sources: dict[int, str], *, is_last: bool) -> Joins:
    """Those of a stack of a model; taps of towers are added behind the first layers of the last stack.

    sources: what layers read from outside of the stack, by their numbers.
    """
    reads = tuple(sorted(sources))
    added = tuple(range(max((len(tower.taps) for tower in model.towers), default=0))) if is_last else ()
    notes = [f"{name}: read by {layers_in_words(reads)}" for name in dict.fromkeys(sources.values())]
    notes += [f"taps of the tower: added behind {layers_in_words(added)}"] if added else []
    return Joins(reads, added, notes=tuple(notes))


def tower_joins(tower: Any, n_layers: int, readers: Sequence[int]) -> Joins:
    """Those of the encoder of a tower; `readers` are the layers of the model that read its vectors."""
    idle = tuple(_idle(tower))
    behind = () if tower.after is None or (tower.after == n_layers and not idle) else (tower.after - 1,)
    return Joins(
        taken=(*behind, *(states - 1 for states in tower.beside)),
        tapped=tuple(tower.taps),
        crosses=tower.crosses,
        unread=tower.after if tower.after is not None and tower.after < n_layers else None,
        idle=idle,
        notes=tuple(_tower_notes(tower, n_layers, idle, readers)),
    )


def layers_in_words(numbers: Sequence[int]) -> str:
    """`layers 0–11`, `layers 3, 8 … 38`."""
    word = f"layer{'s' if len(numbers) > 1 else ''} "
    if len(numbers) > FEW_NAMED and numbers[-1] - numbers[0] + 1 == len(numbers):
        return f"{word}{numbers[0]}–{numbers[-1]}"
    if len(numbers) > MOST_NAMED:
        return f"{word}{numbers[0]}, {numbers[1]} … {numbers[-1]}"
    return word + ", ".join(map(str, numbers))


def _idle(tower: Any) -> Iterator[str]:
    """The modules of the encoder, behind its layers, that no vector of the tower is computed from."""
    rows = {row.id: row for row in wired_forward(tower).rows}
    waiting = [name for name in rows if not name.startswith(ENCODER)]
    live = set[str]() if waiting else {*rows}
    while waiting:
        if (name := waiting.pop()) not in live and name in rows:
            live.add(name)
            waiting += map(source_row, rows[name].reads or ())
    within = [(row.path.removeprefix(ENCODER).partition(".")[0], row) for row in rows.values()]
    used = {module for module, row in within if row.id in live}
    yield from dict.fromkeys(module for module, row in within if row.weights and module not in used)


def _tower_notes(tower: Any, n_layers: int, idle: Sequence[str], readers: Sequence[int]) -> Iterator[str]:
    if tower.usual.kind == "frames":
        yield f"{tower.window_seconds} s of sound at a time"
    if tower.after is not None:
        unread = [layers_in_words(range(tower.after, n_layers))] if tower.after < n_layers else []
        unread += [module.replace("_", " ") for module in idle]
        verb = "feeds" if n_layers - tower.after + len(idle) == 1 else "feed"
        ends = f"; {' and '.join(unread)} {verb} nothing" if unread else ""
        yield f"vectors are taken behind layer {tower.after - 1}{ends}"
    if tower.beside:
        states = layers_in_words([number - 1 for number in tower.beside])
        yield f"states behind {states} join the last{_joined_width(tower)}"
    if tower.crosses:
        yield f"projected for the cross-attention of {layers_in_words(readers)}"
    else:
        place = "and added to the embeddings" if tower.added else "into the places of their tokens"
        yield f"projected {place}"
    if tower.taps:
        yield f"states behind {layers_in_words(tower.taps)} have projectors of their own"


def _joined_width(tower: Any) -> str:
    """`: 7,680 wide`, of the vectors that the first step of the projector reads."""
    steps = (row for row in wired_forward(tower).rows if row.id.startswith(f"{PROJECTOR}."))
    return next((f": {int(row.inputs[0][-1]):,} wide" for row in steps), "")
