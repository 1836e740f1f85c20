"""Short convolutions over the tokens of each channel, alone or in pairs.

B batch, T new tokens, C channels, K taps, G groups of them; H query heads, K kv heads, d head_dim.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from archcli.arith import Number, Shape, prod
from archcli.graph import Op, OpClass, Part, State, StateContent, StateKind, Workspace
from archcli.ops.base import bias, contraction, movement, summed


@dataclass(frozen=True, slots=True, eq=False)
class CausalConv1d(Op):
    """y_t = sum_i w_i x_(t-K+1+i) + b, for each channel by itself (depthwise).

    Inputs x [B, T, C], then the cached K newest inputs [B, K, C] if there are any; what came before is zero.
    Outputs y [B, T, C], and with `keep` the new window [B, K, C]. Weight [C, 1, K].
    """

    drawn: ClassVar[str] = "unary"
    sign: ClassVar[str] = "convolution"
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
        return (_window(x[0] * x[2], self.kernel, self.kernel - 1),) if self.keep else ()

    def run(self, torch: Any, weights: dict[str, Any], x: Any, *window: Any) -> Any:
        before = window[0] if window else x.new_zeros(x.shape[0], self.kernel, x.shape[2])
        joined = torch.cat([before, x], dim=1)
        # of K cached inputs the first new token reads K - 1
        channels = joined[:, 1:].transpose(1, 2)
        y = torch.nn.functional.conv1d(
            channels, weights["weight"], weights.get("bias"), groups=weights["weight"].shape[0]
        )
        y = y.transpose(1, 2).contiguous()  # or every product that follows copies it
        # a view of the window would hold all inputs
        return (y, joined[:, -self.kernel :].clone()) if self.keep else (y,)

    def workspace(self, width: int, x: Shape, *window: Shape) -> Workspace:
        """Bytes of the inputs behind the window, and of the result by channel."""
        joined, empty = width * x[0] * (x[1] + self.kernel) * x[2], width * x[0] * self.kernel * x[2]
        running = joined + width * prod(x) + (0 if window else empty) - (empty if self.keep else 0)
        return Workspace(running, 2 * joined)


def _window(channels: Number, taps: int, in_engines: int) -> State:
    """The cached inputs of a convolution; engines keep those before the next token alone."""
    content, kept = StateContent.CONVOLUTION, channels * in_engines
    return State(channels * taps, StateKind.FIXED, content=content, in_engines=kept)


@dataclass(frozen=True, slots=True, eq=False)
class ConvPair(Op):
    """Two causal convolutions in a row, both biased: of each channel, then within `groups` groups of them.

    Inputs x [B, T, C], then the cached R newest inputs [B, R, C] if there are any, R = `first` + `second` -
    2; what came before is zero, also for the first convolution, whose outputs there are its bias. Outputs y
    [B, T, C], and with `keep` the newest inputs. Of `first` and `second` taps; weights [C, 1, first] and [C,
    C / G, second]. The first runs anew at `second` - 1 earlier places.
    """

    drawn: ClassVar[str] = "unary"
    sign: ClassVar[str] = "convolutions"
    component: ClassVar[str] = "short_conv"
    convolves: ClassVar[bool] = True
    name: str
    first: Number
    second: Number
    groups: Number
    keep: bool

    @property
    def _reach(self) -> Number:
        return self.first + self.second - 2

    def shape(self, x: Shape, *window: Shape) -> Any:
        return (x, (x[0], self._reach, x[2])) if self.keep else (x,)

    def weights(self, x: Shape, *window: Shape) -> dict[str, Shape]:
        width = x[2]
        return {
            "first_weight": (width, 1, self.first),
            "first_bias": (width,),
            "second_weight": (width, width // self.groups, self.second),
            "second_bias": (width,),
        }

    def parts(self, x: Shape, *window: Shape) -> tuple[Part, ...]:
        n, kept, width = prod(x), x[0] * self._reach * x[2], x[2]
        between, together = x[0] * (x[1] + self.second - 1) * width, width // self.groups
        read = x[0] * (x[1] + self._reach) * width
        taps, mixing = width * self.first, width * together * self.second
        first = 2 * between * self.first
        depthwise = contraction("first", first, [(read, 0), (taps, "first_weight")], between)
        within = 2 * n * together * self.second
        grouped = contraction("second", within, [(between, 0), (mixing, "second_weight")], n)
        moved = (movement("window", kept, kept, ()),) if self.keep else ()
        return (depthwise, _bias("first", between, width), grouped, _bias("second", n, width), *moved)

    def states(self, x: Shape, *window: Shape) -> tuple[State, ...]:
        return (_window(x[0] * x[2], self._reach, self._reach),) if self.keep else ()

    def run(self, torch: Any, weights: dict[str, Any], x: Any, *window: Any) -> Any:
        before = window[0] if window else x.new_zeros(x.shape[0], self._reach, x.shape[2])
        joined, conv = torch.cat([before, x], dim=1), torch.nn.functional.conv1d
        channels = joined.transpose(1, 2)
        channels = conv(channels, weights["first_weight"], weights["first_bias"], groups=x.shape[2])
        y = conv(channels, weights["second_weight"], weights["second_bias"], groups=self.groups)
        y = y.transpose(1, 2).contiguous()  # or every product that follows copies it
        return (y, joined[:, x.shape[1] :].clone()) if self.keep else (y,)

    def workspace(self, width: int, x: Shape, *window: Shape) -> Workspace:
        """Bytes of the inputs behind the window, and of the results of both convolutions."""
        row = width * x[0] * x[2]
        joined, empty = row * (x[1] + self._reach), row * self._reach
        running = joined + row * (2 * x[1] + self.second - 1)
        running = running + (0 if window else empty) - (empty if self.keep else 0)
        return Workspace(running, 4 * joined)


def _bias(which: str, out: Number, width: Number) -> Part:
    gradient = summed(f"{which}_bias", out, width)
    return Part(f"{which}_bias", OpClass.ELEMENTWISE, out, out + width, out, (gradient,))


@dataclass(frozen=True, slots=True, eq=False)
class AverageHeads(Op):
    """q'_h = (q_h + k_g) / 2 for the kv head g of query head h, and k'_g = the mean of q'_h of its heads.

    Inputs q [B, T, H, d] and k [B, T, K, d]; outputs of the same shapes.
    """

    sign: ClassVar[str] = "mean of heads"
    name: str

    def shape(self, q: Shape, k: Shape) -> tuple[Shape, Shape]:
        return (q, k)

    def parts(self, q: Shape, k: Shape) -> tuple[Part, ...]:
        n, m = prod(q), prod(k)
        gradients = (
            # what comes back through the mean, added to what comes back directly, halved
            Part("d_0", OpClass.ELEMENTWISE, 2 * n + m, n + m, n, wrt=0),
            Part("d_1", OpClass.ELEMENTWISE, n - m, n, m, wrt=1),
        )
        return (Part("average", OpClass.ELEMENTWISE, 3 * n, n + m, n + m, gradients),)

    def workspace(self, width: int, q: Shape, k: Shape) -> Workspace:
        """Bytes of the sums before they are halved, which are gone when the mean is taken."""
        return Workspace(width * (prod(q) - prod(k)))

    def run(self, torch: Any, weights: dict[str, Any], q: Any, k: Any) -> Any:
        grouped = q.unflatten(2, (k.shape[2], -1))
        mean = (grouped + k.unsqueeze(3)) * 0.5
        return mean.flatten(2, 3), mean.mean(3)
