"""Between the layers of a stack: hidden states that are taken out, and vectors that are added to them.

B batch, T tokens, N vectors of an image, D width.
"""

from __future__ import annotations

from typing import NamedTuple

from archcli.arith import Number, is_whole
from archcli.graph import Tensor
from archcli.modules.spec.trace import PLACING
from archcli.ops import PlaceFeatures


class Taps:
    """The hidden states [B, T, D] behind some layers of a stack; 0 layers are those before the first.

    A count visits one of several like layers: there it stands for the others, too. Where the states `alone`
    are read, nothing reads the layers behind the last of them.
    """

    def __init__(self, x: Tensor, wanted: tuple[int, ...], *, alone: bool = False) -> None:
        self._wanted, self._alone = wanted, alone
        self._taken: dict[int, Tensor] = {}
        # the states behind the last layer, until it is known which layer is next
        self._last: tuple[Number, Tensor] = (0, x)

    def passed(self, layer: Number, x: Tensor, times: Number = 1, period: int = 1) -> Tensor:
        """Pass on the states behind a layer, and keep those before it that are wanted."""
        self._take(layer + 1)
        self._last = (layer + 1, x)
        return x

    def is_unread(self, layer: Number) -> bool:
        """Whether nothing reads this layer."""
        return self._alone and is_whole(layer) and layer >= max(self._wanted)

    def behind(self, layers: int) -> Tensor:
        """The states behind so many layers."""
        self._take(None)
        return self._taken[layers]

    def _take(self, until: Number | None) -> None:
        """Keep the last states for every count that they stand for, which is below `until`."""
        number, x = self._last
        for layers in self._wanted:
            if layers in self._taken or not (is_whole(number) and number <= layers):
                continue
            if until is None or not is_whole(until) or layers < until:
                self._taken[layers] = x


class Deepstack(NamedTuple):
    """Vectors of images that are added at their places behind the first layers.

    DeepStack, arXiv:2406.04334; Qwen3-VL. `ids` [B, T] are those of the prompt, `token` that of the places;
    of each layer `features` has the vectors [B, N, D] of every image.
    """

    ids: Tensor
    token: int
    features: tuple[tuple[Tensor, ...], ...]

    def passed(self, layer: Number, x: Tensor, times: Number = 1, period: int = 1) -> Tensor:
        """x [B, T, D] behind a layer, with the vectors that belong there.

        A count visits one of several like layers: `times` of them, one in each `period`, begin with this.
        """
        for like in range(layer, min(layer + times * period, len(self.features)), period):
            op = PlaceFeatures(f"deepstack.{like}", self.token, adds=True)
            x = op(x, self.ids, *self.features[like], group=PLACING)
        return x

    def is_unread(self, layer: Number) -> bool:
        """False: every layer is read."""
        return False
