"""The outline of a model: the rows of its shortest forward, against which fields that speak of operations by name are checked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from archcli.graph import Abstract, CountTape, Row, Tensor


def outline(model: Any, adapted: Any = None) -> list[Row]:
    """Every operation that one token passes through, once per distinct layer, in the model itself or in one that is `adapted`."""
    rows: list[Row] = []
    tape = CountTape(rows)
    shapes = [shape for shape in ((1, 1), model.source_shape(1, 1)) if shape is not None]
    tokens, *source = [Tensor(tape, Abstract(shape, grad=False)) for shape in shapes]
    (adapted or model).forward(tokens, None, 0, None, False, *source)
    return rows


def counted_layers(model: Any, stacks: Any) -> Iterator[tuple[str, range]]:
    """(path, the layers it stands for) of each layer that is counted: layer i of a pattern of p for every p-th from i on.

    Of an adapted model the first layers stand for themselves alone (`AdaptTape.occurrences`).
    """
    for stem, stack in stacks:
        start = 0
        for group in stack.groups:
            period, end = len(group.blocks), start + group.n_layers
            alone = min(period, group.n_layers) if model.lora is not None else 0
            yield from ((f"{stem}layers.{i}", range(i, i + 1)) for i in range(start, start + alone))
            later = range(start + alone, min(start + alone + period, end))
            yield from ((f"{stem}layers.{i}", range(i, end, period)) for i in later)
            start = end
