"""An architecture's distinct layers, and tallies of their attributes.

Structure is read from the fields of the spec, figures from the rows of one pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from archcli.arith import Number
from archcli.graph import Row
from archcli.measure.passes import Pass, shape_pass
from archcli.modules import Block, FeedForward, MixerFacts, Model, Norm, Position, Stack
from archcli.modules.blocks.block import RESIDUAL
from archcli.modules.models.layers import LayerIndex
from archcli.modules.spec.request import Request
from archcli.wording import format_setting

TIMES = "×"


class SurveyLayer(NamedTuple):
    """Equal layers of a stack: their row path, block, number and rows.

    `position` is what the stack adds to the embeddings; `facts` are those of the layer's mixers.
    """

    path: str
    block: Block
    times: Number
    rows: tuple[Row, ...]
    stack: Stack
    position: Position
    facts: MixerFacts
    ffn: FeedForward | None

    def below(self, step: str) -> Iterator[Row]:
        """The rows of one part of the layer: attention, mixer, cross_attention or ffn."""
        start = f"{self.path}.{step}."
        return (row for row in self.rows if row.path.startswith(start))

    @property
    def order(self) -> str:
        """Norms N, sublayers S and additions to the stream + in their order: `NS+NS+` is pre-norm."""
        letters, last = "", ""
        for row in self.rows:
            step, _, rest = row.path[len(self.path) + 1 :].partition(".")
            if rest:
                letters += "S" if step != last else ""
                last = step
            elif row.group == Norm.group:
                letters += "N"
            elif step.endswith(RESIDUAL):
                letters += "+"
        return letters


@dataclass(frozen=True, slots=True)
class Architecture:
    """A model, one token's prefill of it, and its distinct layers."""

    model: Model
    counted: Pass
    layers: tuple[SurveyLayer, ...]


def architecture_of(model: Model, counted: Pass | None = None) -> Architecture:
    """Count a pass of one token through the model, if there is none yet, and sort its rows by layer."""
    counted = counted or shape_pass(model, Request("prefill", seq_len=1))
    return Architecture(model, counted, tuple(_layers(model, counted.rows)))


def _layers(model: Model, rows: tuple[Row, ...]) -> Iterator[SurveyLayer]:
    index = LayerIndex(model)
    by_layer = index.by_layer(rows)
    for layer in index:
        position = getattr(layer.stack, "position", model.embedding.position)
        rows_of, facts = tuple(by_layer.get(layer.path, ())), layer.facts(model.d_model)
        where = (layer.path, layer.block, layer.times, rows_of, layer.stack)
        yield SurveyLayer(*where, position, facts, layer.ffn)


def tally(values: Iterable[tuple[Any, Number]]) -> dict[Any, Number]:
    """How many layers have each value, in order of appearance."""
    counts: dict[Any, Number] = {}
    for value, times in values:
        counts[value] = counts.get(value, 0) + times
    return counts


def format_tally(counts: dict[Any, Number], nothing: str = "none") -> str | None:
    """A tally as text, `window 4096 ×21, full ×21`; a single value is returned alone."""
    words = {value: nothing if value is None else format_setting(value) for value in counts}
    if len(counts) == 1:
        return next((word for value, word in words.items() if value is not None), None)
    return ", ".join(f"{words[value]} {TIMES}{times}" for value, times in counts.items())


def most_common(counts: Iterable[tuple[Any, Number]]) -> Any:
    """The value of most layers, of those that have one; the first of equally many.

    Values are compared and not hashed, as they may stand for many candidates.
    """
    stated: list[list[Any]] = []
    for value, times in counts:
        known = next((entry for entry in stated if entry[0] == value), None)
        if known is not None:
            known[1] += times
        elif value is not None:
            stated.append([value, times])
    return max(stated, key=lambda entry: entry[1])[0] if stated else None
