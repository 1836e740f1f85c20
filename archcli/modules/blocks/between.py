"""Between the layers of a stack: hidden states that are taken out, and vectors that are added to them.

B batch, T tokens, N vectors of an image, D width.
"""

from __future__ import annotations

from typing import NamedTuple

from archcli.arith import Number, is_whole
from archcli.graph import Tensor
from archcli.ops import PlaceFeatures


class Taps:
    """The hidden states [B, T, D] of a stack behind each of its layers, and before the first."""

    def __init__(self, x: Tensor) -> None:
        self._states: list[tuple[Number, Tensor]] = [(0, x)]

    def passed(self, layer: Number, x: Tensor) -> Tensor:
        """Keep the states behind a layer, and pass them on."""
        self._states.append((layer + 1, x))
        return x

    def behind(self, layers: int) -> Tensor:
        """The states behind so many layers.

        A count visits one of several like layers: there it is the last visited before, of the same shape.
        """
        return [x for number, x in self._states if not is_whole(number) or number <= layers][-1]


class Deepstack(NamedTuple):
    """Vectors of images that are added at their places behind the first layers.

    DeepStack, arXiv:2406.04334; Qwen3-VL. `ids` [B, T] are those of the prompt, `token` that of the places;
    of each layer `features` has the vectors [B, N, D] of every image.
    """

    ids: Tensor
    token: int
    features: tuple[tuple[Tensor, ...], ...]

    def passed(self, layer: int, x: Tensor) -> Tensor:
        """x [B, T, D] behind a layer, with the vectors that belong there."""
        if layer >= len(self.features):
            return x
        op = PlaceFeatures(f"deepstack.{layer}", self.token, adds=True)
        added: Tensor = op(x, self.ids, *self.features[layer])
        return added


__all__ = ["Deepstack", "Taps"]
