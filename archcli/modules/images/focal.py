"""FocalModulation: convolutions of ever wider reach, weighed at each place, in place of attention.

B batch, h and w rows and columns, C channels, L levels.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from archcli.graph import Tensor
from archcli.modules.attention.mixer import Mixer
from archcli.modules.networks.activation import GELU, Activation
from archcli.modules.networks.norm import Norm
from archcli.modules.spec.base import Conflict
from archcli.modules.spec.context import Context
from archcli.modules.spec.values import Interval
from archcli.ops import (
    Add,
    ChannelsFirst,
    ChannelsLast,
    Conv2d,
    Linear,
    MeanPlaces,
    Multiply,
    OuterPlaces,
    Scale,
    Split,
)

Whole = Annotated[int, Interval(ge=1)]
"""A number that is no symbol of formulas: convolutions are laid out by it."""


class FocalModulation(Mixer):
    """y = Wo N(q * Wc (sum_l g_l c_l + g_L act(mean c_(L-1)))), c_l = act(conv_l c_(l-1)), c_(-1) = c.

    Yang et al. 2022, arXiv:2203.11926 section 3. A matrix makes q, c and the numbers g of `levels` L + 1
    levels of each place. conv_l is a kernel of `side` + 2 l places on each side for each channel. `divides`
    makes a mean of the sum; `norm` is before Wo.
    """

    title: ClassVar[str] = "Focal modulation"
    short_title: ClassVar[str] = "focal modulation"
    kind: Literal["focal"] = "focal"
    side: Whole = 3
    levels: Whole = 2
    divides: bool = False
    activation: Activation = GELU()
    norm: Norm | None = None

    def forward(self, x: Tensor, context: Context | None = None) -> tuple[Tensor, None]:
        """[B, h, w, C] to [B, h, w, C]."""
        width, number = x.shape[3], self.levels + 1
        projected = Linear("in_proj", 2 * width + number, True)(x)
        q, contents, weights = Split("split", (width, width, number))(projected)
        total = self._gathered(contents, Split("weights", (1,) * number)(weights))
        total = Scale("share", 1 / number)(total) if self.divides else total
        y = Multiply("modulated")(q, Linear("context_proj", width, True)(total))
        y = y if self.norm is None else self.norm(y, name="norm")
        return Linear("out_proj", width, True)(y), None

    def _gathered(self, contents: Tensor, weights: tuple[Tensor, ...]) -> Tensor:
        """The weighed sum of all levels, and of the mean of the last."""
        total: Tensor | None = None
        width = contents.shape[3]
        for level in range(self.levels):
            side = self.side + 2 * level
            conv = Conv2d(
                f"context{level}", width, (side, side), (1, 1), (side // 2, side // 2), width, False
            )
            convolved = ChannelsLast(f"last{level}")(conv(ChannelsFirst(f"first{level}")(contents)))
            contents = self.activation(convolved, name=f"activation{level}")
            weighed = Multiply(f"weighed{level}")(contents, weights[level])
            total = weighed if total is None else Add(f"add{level}")(total, weighed)
        mean = self.activation(MeanPlaces("mean")(contents), name="mean_activation")
        everywhere = OuterPlaces("weighed_mean")(weights[self.levels], mean)
        gathered: Tensor = everywhere if total is None else Add("mean_add")(total, everywhere)
        return gathered

    def check(self) -> Iterator[Conflict]:
        """Conflict: kernels without a middle."""
        yield from super().check()
        if self.side % 2 == 0:
            yield Conflict("focal-side", "side", "an even kernel has no middle", "state an odd one")
