"""Shape: an architecture taken apart into its sorts of layers, each with its rows, and how the facts of layers are told of a whole model.

What is read here is structure (fields of the spec) and rows of one pass; nothing is computed a second time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from archcli.arith import Number
from archcli.graph import Row
from archcli.measure.passes import Pass, prefill_pass
from archcli.modules import Block, EncoderStack, MixerFacts, Model, Norm, Position, Stack
from archcli.modules.block import RESIDUAL
from archcli.modules.layers import LayerIndex
from archcli.wording import format_setting

TIMES = "×"


class Layer(NamedTuple):
    """One sort of layer: its path in the rows, its block, how many are of the sort, its rows, and the stack it stands in.

    `position` is what that stack adds to the embeddings; `facts` are those of the layer's mixer.
    """

    path: str
    block: Block
    times: Number
    rows: tuple[Row, ...]
    stack: Stack
    position: Position
    facts: MixerFacts

    def below(self, step: str) -> Iterator[Row]:
        """The rows of one part of the layer: attention, mixer, cross_attention or ffn."""
        start = f"{self.path}.{step}."
        return (row for row in self.rows if row.path.startswith(start))

    @property
    def order(self) -> str:
        """What follows what in the layer: N a norm, S a sublayer, + its sum with the stream. `NS+NS+` is pre-norm."""
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
class Shape:
    """An architecture, one token's prefill of it, and its sorts of layers."""

    model: Model
    counted: Pass
    layers: tuple[Layer, ...]


def shape_of(model: Model) -> Shape:
    """Trace a token once, and sort the rows by layer."""
    counted = prefill_pass(model, 1, 1)
    return Shape(model, counted, tuple(_layers(model, counted.rows)))


def _layers(model: Model, rows: tuple[Row, ...]) -> Iterator[Layer]:
    for path, _, block, times, _, stack in LayerIndex(model):
        position = stack.position if isinstance(stack, EncoderStack) else model.embedding.position
        of_layer = tuple(row for row in rows if row.path.startswith(f"{path}."))
        yield Layer(path, block, times, of_layer, stack, position, block.facts(model.d_model))


def tallied(values: Iterable[tuple[Any, Number]]) -> dict[Any, Number]:
    """How many layers have each value, in order of appearance."""
    found: dict[Any, Number] = {}
    for value, times in values:
        found[value] = found.get(value, 0) + times
    return found


def told(tally: dict[Any, Number], nothing: str = "none") -> str | None:
    """All values in short: `window 4096 ×21, full ×21`, or the one there is; None where that is None."""
    words = {value: nothing if value is None else format_setting(value) for value in tally}
    if len(tally) == 1:
        return next((word for value, word in words.items() if value is not None), None)
    return ", ".join(f"{words[value]} {TIMES}{times}" for value, times in tally.items())


def main_of(tally: dict[Any, Number]) -> Any:
    """The value of most layers, of those that have one; the first of equally many."""
    stated = {value: times for value, times in tally.items() if value is not None}
    return max(stated, key=lambda value: stated[value]) if stated else None
