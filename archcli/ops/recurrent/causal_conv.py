"""CausalConv1d: a short convolution over the tokens of each channel.

B batch, T new tokens, C channels, K taps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from archcli.arith import Number, Shape, prod
from archcli.graph import Op, Part, State, StateContent, StateKind, Workspace
from archcli.graph.kept import Call, Kept, New
from archcli.ops.base import bias, contraction, movement


@dataclass(frozen=True, slots=True, eq=False)
class CausalConv1d(Op):
    """y_t = sum_i w_i x_(t-K+1+i) + b, for each channel by itself (depthwise).

    Inputs x [B, T, C], then the cached K newest inputs [B, K, C] if there are any; what came before is zero.
    Outputs y [B, T, C], and with `keep` the new window [B, K, C]. Weight [C, 1, K].
    """

    component: ClassVar[str] = "short_conv"
    convolves: ClassVar[bool] = True
    name: str
    kernel: Number
    keep: bool
    bias: bool = True

    def shape(self, x: Shape, *window: Shape) -> Any:
        return (x, (x[0], self.kernel, x[2])) if self.keep else (x,)

    def weights(self, x: Shape, *window: Shape) -> dict[str, Shape]:
        return {"weight": (x[2], 1, self.kernel)} | ({"bias": (x[2],)} if self.bias else {})

    def parts(self, x: Shape, *window: Shape) -> tuple[Part, ...]:
        n, kept = prod(x), x[0] * self.kernel * x[2]
        taps = x[2] * self.kernel
        product = contraction("conv", 2 * n * self.kernel, [(n, 0), (taps, "weight")], n)
        moved = (movement("window", kept, kept, ()),) if self.keep else ()
        return (product, *((bias(n, x[2]),) if self.bias else ()), *moved)

    def states(self, x: Shape, *window: Shape) -> tuple[State, ...]:
        return (_window(x[0] * self.kernel * x[2]),) if self.keep else ()

    def kept(self, call: Call, x: Shape, *window: Shape) -> tuple[Kept, ...]:
        """The inputs behind the window."""
        return (New(x[0] * (x[1] + self.kernel) * x[2], call.widths[0]),)

    def run(self, torch: Any, weights: dict[str, Any], x: Any, *window: Any) -> Any:
        before = window[0] if window else x.new_zeros(x.shape[0], self.kernel, x.shape[2])
        joined = torch.cat([before, x], dim=1)
        channels = joined[:, 1:].transpose(1, 2)
        y = torch.nn.functional.conv1d(
            channels, weights["weight"], weights.get("bias"), groups=len(weights["weight"])
        )
        y = y.transpose(1, 2).contiguous()  # or every product that follows copies it
        # a view of the window would hold all inputs
        return (y, joined[:, -self.kernel :].clone()) if self.keep else (y,)

    def workspace(self, width: int, x: Shape, *window: Shape) -> Workspace:
        """Bytes of the inputs behind the window, and of the result by channel."""
        joined, empty = width * x[0] * (x[1] + self.kernel) * x[2], width * x[0] * self.kernel * x[2]
        running = joined + width * prod(x) + (0 if window else empty) - (empty if self.keep else 0)
        return Workspace(running, 2 * joined)


def _window(elements: Number) -> State:
    return State(elements, StateKind.FIXED, content=StateContent.CONVOLUTION)
