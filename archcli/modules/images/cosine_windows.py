"""Attention by cosines within windows of a grid, with biases that a small network makes: Swin V2.

B batch, h and w rows and columns, s side of a window, W windows, C channels, H heads, T = s s places.
"""

from __future__ import annotations

from math import log
from typing import Annotated, ClassVar, Literal

from archcli.arith import Number, ceil_div
from archcli.graph import Tensor
from archcli.modules.attention.grouped import ProjectedAttention
from archcli.modules.networks.activation import ReLU
from archcli.modules.networks.norm import RMSNorm
from archcli.modules.spec.base import Count, Size
from archcli.modules.spec.context import Context
from archcli.modules.spec.values import Interval
from archcli.ops import (
    CutWindows,
    DifferenceBias,
    HeadTemperature,
    JoinWindows,
    Linear,
    LogDifferences,
    Mask,
    MaskShifted,
    Positions,
)

LENGTH = RMSNorm(eps=1e-12, weight=False)
"""The norm that brings queries and keys to the length sqrt(d)."""
HOTTEST = log(100)
"""Most of the logarithm of a temperature; arXiv:2111.09883 section 3.2, whose least is 0.01."""
BIAS_SCALE = 16.0
"""Largest bias; the paper's code."""


class CosineWindowAttention(ProjectedAttention):
    """Attention of the places of each window of `side` x `side`, with scores e^t cos(q, k) + b.

    Swin V2, arXiv:2111.09883 sections 3.2 and 3.3. t is a trained number of each head, b is made of the
    logarithms of both differences by a network `bias_width` wide; `trained_side` is the side of the windows
    of training, where that is another (0 for the same). `shifted` moves the windows by half a side, whatever
    the grid. Windows may reach beyond it: zeros fill them up.
    """

    title: ClassVar[str] = "Window attention by cosines"
    short_title: ClassVar[str] = "cosine windows"
    kind: Literal["cosine_window"] = "cosine_window"
    side: Annotated[int, Interval(ge=1)]
    shifted: bool = False
    trained_side: Count = 0
    bias_width: Size = 512

    @property
    def kv_heads(self) -> Number:
        """H."""
        return self.n_heads

    def forward(self, x: Tensor, context: Context | None = None) -> tuple[Tensor, tuple[Tensor, ...] | None]:
        """[B, h, w, C] to [B, h, w, C]."""
        h, w = x.shape[1:3]
        shift = self.side // 2 if self.shifted else 0
        windows = CutWindows("windows", self.side, shift)(x)
        y, _ = super().forward(windows, self._within(windows, (h, w), shift))
        return JoinWindows("grid", (h, w), self.side, shift)(y), None

    def _within(self, windows: Tensor, grid: tuple[Number, Number], shift: int) -> Context:
        """What windows of a grid are given: their places, and the bias on their scores."""
        group = "position_embedding"
        differences = LogDifferences("differences", self.side, self.trained_side)(windows)
        hidden = Linear("bias_up", self.bias_width, True)(differences, group=group)
        hidden = ReLU()(hidden, name="bias_activation", group=group)
        table = Linear("bias_down", self.n_heads)(hidden, group=group)
        bias = DifferenceBias("bias", self.side, BIAS_SCALE)(table, group=group)
        positions = Positions("places")(windows)
        if not shift:
            return Context(positions, bias=bias)
        padded = (ceil_div(grid[0], self.side) * self.side, ceil_div(grid[1], self.side) * self.side)
        return Context(positions, relative=MaskShifted("shifted", padded, self.side, shift)(bias, windows))

    def own_bias(self, context: Context, q: Tensor, k: Tensor, scale: float) -> Tensor | None:
        """The bias [B W, H, T, T] of windows that are masked, or None."""
        return context.relative

    def attend(
        self,
        context: Context,
        d_query: Number,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        name: str = "attend",
        mask: Mask | None = None,
        **given: Tensor | None,
    ) -> Tensor:
        """As softmax attention with e^t cos(q, k) for scores."""
        q, k = (LENGTH(x, name=f"{which}_length", group="qk_norm") for which, x in (("q", q), ("k", k)))
        q = HeadTemperature("temperature", HOTTEST)(q, group="qk_norm")
        # both are sqrt(d) long: the scale (d^2)^-1/2 makes a cosine of their product
        return super().attend(context, d_query * d_query, q, k, v, name, mask, **given)
