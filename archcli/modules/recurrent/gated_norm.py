"""Norms of a recurrent layer's output that a gate multiplies, over all channels or head by head."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

from archcli.arith import Number
from archcli.graph import Tensor
from archcli.modules.networks.activation import Activation, SiLU
from archcli.modules.spec.base import Conflict, Inline, Positive, Size
from archcli.ops import Multiply, Normalize


class GatedNorm(Inline):
    """Base of the norms with a gate: `before` is norm(y f(z)), `after` is norm(y) f(z).

    Before: Mamba-2, arXiv:2405.21060 section 7. After: gated delta nets, arXiv:2412.06464. `groups` n
    normalizes each n-th of the channels by itself, as tensor parallelism wants it.
    """

    family: ClassVar[str] = "gated_norm"
    group: ClassVar[str] = "norms"
    eps: Positive
    gate: Literal["before", "after"] = "before"
    groups: Size = 1
    activation: Activation = SiLU()

    def normalize(self, name: str) -> Normalize:
        """The normalizing op."""
        raise NotImplementedError

    def forward(self, y: Tensor, z: Tensor, *, name: str) -> Tensor:
        """Normalize y [..., d] over its last axis, and multiply by f(z), z [..., d]."""
        gate = self.activation(z, name=f"{name}_gate")
        gated = Multiply(f"{name}_gated")
        if self.gate == "before":
            normalized: Tensor = self.normalize(name)(gated(y, gate))
            return normalized
        product: Tensor = gated(self.normalize(name)(y), gate)
        return product

    def check_channels(self, channels: int, channels_are: str) -> Iterator[Conflict]:
        """Conflict of the mixer that holds it: groups that do not divide the channels."""
        if channels % self.groups:
            yield Conflict(
                "norm-groups-divide-channels",
                "norm.groups",
                f"{self.groups} groups do not divide {channels} channels ({channels_are})",
                "each group normalizes the same number of channels",
            )


class GatedRMSNorm(GatedNorm):
    """RMSNorm with a gate: x / sqrt(mean(x^2) + eps) * weight."""

    kind: Literal["rmsnorm"] = "rmsnorm"
    eps: Positive = 1e-5
    weight: bool = True

    def normalize(self, name: str) -> Normalize:
        """The Normalize op without mean."""
        return Normalize(name, self.eps, weight=self.weight, groups=self.groups)


class GatedLayerNorm(GatedNorm):
    """LayerNorm with a gate: (x - mean) / sqrt(var + eps) * weight + bias."""

    kind: Literal["layernorm"] = "layernorm"
    eps: Positive = 1e-5
    weight: bool = True
    bias: bool = False

    def normalize(self, name: str) -> Normalize:
        """The Normalize op with mean and variance."""
        return Normalize(name, self.eps, centred=True, weight=self.weight, bias=self.bias, groups=self.groups)


def of_heads(norm: GatedNorm, n_heads: Number) -> GatedNorm:
    """The norm with a statistic for each head; its weights are those of all heads, one after the other."""
    # groups are whole heads, as heads lie one after the other; `replace` takes symbols, too
    return norm.replace(groups=n_heads)


def check_of_heads(norm: GatedNorm) -> Iterator[Conflict]:
    """Conflict: groups stated for a norm that takes each head by itself."""
    if norm.groups != 1:
        yield Conflict(
            "norm-of-heads", "norm.groups", "the norm is of each head by itself", "leave groups out"
        )
