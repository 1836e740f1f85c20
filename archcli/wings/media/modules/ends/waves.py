"""A front end of sounds that is a whole encoder: a pyramid of causal convolutions over a wave.

B batch, n samples, T vectors, C channels of a stage, D width.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import ClassVar, Literal

from archcli.arith import Number
from archcli.graph import Tensor
from archcli.modules.networks.ffn import FeedForward
from archcli.modules.networks.norm import Norm, RMSNorm
from archcli.modules.spec.base import Conflict, Size
from archcli.modules.spec.request import InputSpec, Medium
from archcli.ops import Add, CausalConv1d, Linear, Regroup
from archcli.wings.media.modules.ends.patches import FrontEnd
from archcli.wings.media.modules.ends.sounds import TOWER, USUAL_SECONDS, Whole


class WavePyramid(FrontEnd):
    """Stages of x = N(W [x_1 .. x_s]), then `depths` times x += F(N(conv x)); Muse Spark.

    Stage i joins each `strides` i vectors in a row, of a wave so many samples, by a matrix with a bias that
    leads to `channels` i. Its convolutions are depthwise and causal, with `conv_kernel` taps and a bias.
    `networks` i is F, one of `norm` stands behind every matrix W and before every F. A wave is filled up with
    silence to a multiple of what becomes one vector, the product of all strides; `sampling_rate` is its
    samples a second. The last stage has D channels, which are not stated.
    """

    group: ClassVar[str] = "conv_frontend"
    part: ClassVar[str] = TOWER
    media: ClassVar[tuple[str, ...]] = ("samples", "seconds")
    causal: ClassVar[bool] = True
    kind: Literal["wave_pyramid"] = "wave_pyramid"
    channels: tuple[Size, ...]
    strides: tuple[Whole, ...]
    depths: tuple[Whole, ...]
    networks: tuple[FeedForward, ...]
    conv_kernel: Size = 7
    norm: Norm = RMSNorm()
    sampling_rate: Whole = 24_000

    @property
    def usual(self) -> Medium:
        """30 seconds."""
        return Medium("seconds", (USUAL_SECONDS,))

    def input(self, batch_size: Number, medium: Medium) -> InputSpec:
        """[B, n], n with the silence behind it."""
        return InputSpec((batch_size, self.tokens(medium) * prod(self.strides)), "features")

    def tokens(self, medium: Medium) -> int:
        """A vector for each so many samples, the last of which may be filled up."""
        samples = medium.size[0] * (self.sampling_rate if medium.kind == "seconds" else 1)
        return -(-samples // prod(self.strides))

    def forward(self, x: Tensor, d_model: Number) -> Tensor:
        """[B, n] to [B, T, D]."""
        length, width, y = x.shape[1], 1, x
        for i, (channels, stride) in enumerate(zip((*self.channels, d_model), self.strides, strict=True)):
            length, width = length // stride, width * stride
            joined = Regroup(f"stage{i}_join", length, width)(y)
            y = self.norm(Linear(f"stage{i}_project", channels, True)(joined), name=f"stage{i}_norm")
            for j in range(self.depths[i]):
                y = self._block(y, self.networks[i], f"stage{i}_{j}")
            width = channels
        return y

    def _block(self, x: Tensor, network: FeedForward, name: str) -> Tensor:
        """x + F(N(conv x))."""
        (moved,) = CausalConv1d(f"{name}_conv", self.conv_kernel, False)(x)
        y = network(self.norm(moved, name=f"{name}_norm"), name=f"{name}_ffn")
        added: Tensor = Add(f"{name}_residual")(x, y)
        return added

    def check(self) -> Iterator[Conflict]:
        """Conflicts: lists of different lengths; networks that are mixtures or carry a state."""
        yield from super().check()
        if len({len(self.channels) + 1, len(self.strides), len(self.depths), len(self.networks)}) > 1:
            what = "strides, depths and networks have an entry for each stage, channels for all but the last"
            yield Conflict("pyramid-stages", "strides", what, "make the lists fit each other")
        if not all(network.can_be_expert for network in self.networks):
            what = "networks of a pyramid neither are mixtures nor carry a state"
            yield Conflict("pyramid-networks", "networks", what, "use kind mlp or glu")
