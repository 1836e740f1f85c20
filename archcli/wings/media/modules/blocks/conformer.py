"""Conformer: two networks around attention and a convolution over time.

B batch, T tokens, D width, C channels of the convolution.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from archcli.graph import Tensor
from archcli.modules.blocks.block import Block
from archcli.modules.networks.activation import Activation, Sigmoid, SiLU
from archcli.modules.networks.norm import BatchNorm, Norm
from archcli.modules.spec.base import Conflict, Module, Positive, Size
from archcli.modules.spec.context import Context, Kept, or_default
from archcli.modules.spec.values import Length
from archcli.ops import Add, DepthwiseConv1d, Linear, Multiply, Parameter, Scale, Softmax, TakeTokens

Pair = Annotated[tuple[Positive, ...], Length(2, 2)]
"""Factors of the stream, and of what is added to it."""


class LightConvolution(Module):
    """down(act(N(conv(up x * gate(gate x))))), conv a kernel for each of C channels.

    Conformer, Gulati et al. 2020, arXiv:2005.08100 section 2.2. `width` C is D where it is left out. `bias`
    biases up, gate and down, `conv_bias` the convolution, which is `causal` where it sees earlier tokens
    alone. `gated_bias` adds a trained vector to both
    branches once more, `mixes` a matrix with bias follows the convolution, `overlong` computes the kernel -
    1 tokens behind the last, which are left out (Phi-4).
    """

    group: ClassVar[str] = "convolution"
    kernel: Size
    width: Size | None = None
    bias: bool = False
    conv_bias: bool = False
    causal: bool = False
    norm: Norm | None = BatchNorm()
    gate: Activation = Sigmoid()
    activation: Activation = SiLU()
    gated_bias: bool = False
    mixes: bool = False
    overlong: bool = False

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, D] to [B, T, D]."""
        y = self._gated(x, x.shape[-1] if self.width is None else self.width)
        before = self.kernel - 1 if self.causal else self.kernel // 2
        after = self.kernel - 1 if self.overlong else self.kernel - 1 - before
        y = DepthwiseConv1d("conv", self.kernel, before, after, self.conv_bias)(y, group="depthwise_conv")
        if self.mixes:
            y = Linear("mix_proj", y.shape[-1], True)(y)
        if self.overlong:
            y = TakeTokens("trim", x.shape[1])(y)
        y = y if self.norm is None else self.norm(y, name="norm")
        y = self.activation(y, name="activation")
        out: Tensor = Linear("down_proj", x.shape[-1], self.bias)(y)
        return out

    def _gated(self, x: Tensor, width: int) -> Tensor:
        """up x * gate(gate x)."""
        up, gate = (Linear(f"{name}_proj", width, self.bias)(x) for name in ("up", "gate"))
        if self.gated_bias:
            up, gate = (
                Add(f"{name}_shifted", meets=False)(y, Parameter(f"{name}_shift", (width,))(y))
                for name, y in (("up", up), ("gate", gate))
            )
        gated: Tensor = Multiply("gated")(up, self.gate(gate, name="gate_activation"))
        return gated

    def check(self) -> Iterator[Conflict]:
        """Conflict: more tokens than a causal convolution has."""
        yield from super().check()
        if self.overlong and not self.causal:
            yield Conflict(
                "overlong-causal", "overlong", "it is of a causal convolution", "state causal: true"
            )


class ConformerBlock(Block):
    """x += F1(N x) / 2; x += A(N x); x += C(N x); x += F2(N x) / 2; x = N x.

    Conformer, Gulati et al. 2020, arXiv:2005.08100 section 2; the halves are those of Macaron networks
    (arXiv:1906.02762). Both networks are of the kind of `ffn`, with weights of their own. `network_weights`
    are the factors of the stream and of what a network adds to it. `normed` both normalizes what networks and
    attention add (Gemma 4). `conditioned` n adds W2 softmax(W1 x + b1) + b2 behind the layer, W1 [n, D]
    (self-conditioned CTC, arXiv:2104.02724).
    """

    kind: Literal["conformer"] = "conformer"
    convolution: LightConvolution
    network_weights: Pair = (1.0, 0.5)
    normed: Literal["before", "both"] = "before"
    conditioned: Size | None = None

    def forward(self, x: Tensor, context: Context | None = None) -> tuple[Tensor, Kept]:
        """[B, T, D] to [B, T, D]."""
        context = or_default(x, context)
        self.hold(x)
        x = self._network(x, "first_ffn")
        if self.mixing is not None:
            step, mixer = self.mixing
            y, _ = mixer(self.norm(x, name=f"{step}_norm"), context, name=step)
            x = self._joined(x, self._after(y, step), step, (1.0, 1.0))
        y = self.convolution(self.norm(x, name="convolution_norm"), name="convolution")
        x = self._joined(x, y, "convolution", (1.0, 1.0))
        x = self.norm(self._network(x, "ffn"), name="final_norm")
        return x if self.conditioned is None else self._conditioned(x, self.conditioned), None

    def _network(self, x: Tensor, name: str) -> Tensor:
        """x and what the network of that name adds to it."""
        if self.ffn is None:
            return x
        y = self.ffn(self.norm(x, name=f"{name}_norm"), name=name)
        return self._joined(x, self._after(y, name), name, self.network_weights)

    def _after(self, y: Tensor, name: str) -> Tensor:
        """N y where what is added is normalized."""
        normed: Tensor = y if self.normed == "before" else self.norm(y, name=f"{name}_post_norm")
        return normed

    def _joined(self, x: Tensor, y: Tensor, name: str, weights: tuple[float, ...]) -> Tensor:
        """w1 x + w2 y."""
        x = x if weights[0] == 1.0 else Scale(f"{name}_stream_weight", weights[0])(x)
        y = y if weights[1] == 1.0 else Scale(f"{name}_weight", weights[1])(y)
        return self._add(x, y, name)

    def _conditioned(self, x: Tensor, n: int) -> Tensor:
        """x and what it says of the labels so far."""
        labels = Softmax("condition_softmax")(Linear("condition_labels", n, True)(x))
        y = Linear("condition_proj", x.shape[-1], True)(labels)
        total: Tensor = Add("condition_add")(x, y)
        return total

    def check(self) -> Iterator[Conflict]:
        """Conflicts: no attention or no network, a network with a state."""
        yield from super().check()
        yield from self.check_stateless("conformer")
        if self.mixing is None or self.ffn is None:
            yield Conflict("conformer-parts", "ffn", "it has attention and networks", "state both")
