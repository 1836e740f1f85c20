"""The model of one stage of a pipeline: its layers alone, with the head where it is the last."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from archcli.measure.memory.pipeline import Stage
from archcli.modules import Model
from archcli.modules.models.stack import Group
from archcli.modules.spec.base import substitute


def stage_model(model: Model, stage: Stage) -> Model:
    """The layers of a stage, in one piece.

    The first has the embedding. In a later one the embedding's result stands for the hidden states that it
    receives; all but the last end with hidden states.
    """
    if stage.is_first and stage.is_last:
        return model
    groups = tuple(part for numbers in stage.groups for part in _parts(model, numbers))
    changes: dict[str, Any] = {"groups": groups}
    if not stage.is_last:
        changes |= {"head": None, "final_norm": False}
        if "mtp" in model.fields:
            changes["mtp"] = None
    cut: Model = substitute(model, {name: value for name, value in changes.items() if name in model.fields})
    return cut


def _parts(model: Any, numbers: range) -> Iterator[Group]:
    """What each group of layers has of these numbers; a pattern begins at the first of them."""
    start = 0
    for group in model.groups:
        first, end = max(numbers.start, start), min(numbers.stop, start + group.n_layers)
        if first < end:
            turn = (first - start) % len(group.blocks)
            pattern = group.pattern[turn:] + group.pattern[:turn]
            yield group.replace(n_layers=end - first, pattern=pattern)
        start += group.n_layers
