"""Short convolutions behind other sublayers: x + conv(x), and a network with one.

B batch, T new tokens, D d_model, K taps of the convolution.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

from archcli.graph import Tensor
from archcli.modules.networks.ffn import FeedForward
from archcli.modules.spec.base import Conflict, Size
from archcli.modules.spec.context import Kept
from archcli.ops import Add, CausalConv1d, TrainedScale

Window = tuple[Tensor, ...] | None
"""The K newest inputs [B, K, C]; None for a pass that caches nothing, empty for one that starts a cache."""


def with_convolution(x: Tensor, name: str, kernel: int, window: Window) -> tuple[Tensor, tuple[Tensor, ...]]:
    """x + conv(x) for x [B, T, C], causal and depthwise, and the new window if one is kept."""
    # an empty window starts a cache: the op keeps its inputs and reads none
    y, *last = CausalConv1d(name, kernel, window is not None, bias=False)(x, *(window or ()))
    added: Tensor = Add(f"{name}_add")(x, y)
    return added, tuple(last)


class ConvolvedNetwork(FeedForward):
    """y + conv(y) with y = F(x): a short convolution over the tokens behind a feed-forward network F.

    Inkling (Thinking Machines).

    `network` is F, the convolution is causal, of `conv_kernel` taps, one for each channel. `trained_scale`
    multiplies y by a trained number. The state is the last K inputs of the convolution [B, K, D].
    """

    kind: Literal["convolved"] = "convolved"
    keeps_state: ClassVar[bool] = True
    network: FeedForward
    conv_kernel: Size = 4
    trained_scale: bool = False

    def forward(self, x: Tensor, cache: Kept = None) -> tuple[Tensor, Kept]:
        """[B, T, D] to [B, T, D]; the cache holds the K last inputs of the convolution."""
        y = self.network(x, name="network")
        if self.trained_scale:
            y = TrainedScale("trained_scale")(y)
        y, last = with_convolution(y, "conv", self.conv_kernel, cache)
        return y, None if cache is None else last

    def check(self) -> Iterator[Conflict]:
        """Conflict: a network that carries a state of its own."""
        yield from super().check()
        if self.network.keeps_state:
            what = "a network behind which there is a convolution cannot carry a state of its own"
            yield Conflict("convolved-without-state", "network", what, "use kind mlp, glu or moe")
