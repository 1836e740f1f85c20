"""Norms: which statistic is divided out, and what weights follow.

RMSNorm and LayerNorm are one op, `Normalize`, BatchNorm another, called under the name of their place.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal, cast

from archcli.graph import Op, Tensor
from archcli.modules.spec.base import Conflict, Inherit, Inline, Positive, Size
from archcli.modules.spec.values import Interval
from archcli.ops import (
    Activate,
    BatchNormalize,
    LentNormalize,
    Linear,
    MergeHeads,
    Multiply,
    Normalize,
    SplitHeads,
)


class Norm(Inline):
    """Base of the norms, which a block applies before or after its sublayers."""

    family: ClassVar[str] = "norm"
    group: ClassVar[str] = "norms"
    per_head: ClassVar[bool] = True
    """Whether it can have weights for every head and channel."""
    eps: Positive

    def normalize(self, name: str, axes: int = 1) -> Op:
        """The normalizing op; `axes` 2 gives each head its own weights [H, d]."""
        raise NotImplementedError

    def forward(self, x: Tensor, *, name: str, axes: int = 1) -> Tensor:
        """Normalize x [..., d] over its last axis."""
        normalized: Tensor = self.normalize(name, axes)(x)
        return normalized


class RMSNorm(Norm):
    """y = x / sqrt(mean(x^2) + eps) * (offset + weight). Zhang & Sennrich 2019, arXiv:1910.07467.

    Differs from LayerNorm in taking no mean and having no bias. eps 1e-6 as in T5 and Gemma; Llama uses 1e-5.
    `offset` 1 stores the weight minus one (Gemma), 0 the weight itself. Without `weight` the gain is 1 and
    nothing is trained (Llama 4's QK-norm).
    """

    kind: Literal["rmsnorm"] = "rmsnorm"
    eps: Positive = 1e-6
    offset: Literal[0, 1] = 0
    weight: bool = True

    def check(self) -> Iterator[Conflict]:
        """Conflict: an offset without a weight."""
        yield from _offset_without_weight(self.offset, weight=self.weight)

    def normalize(self, name: str, axes: int = 1) -> Normalize:
        """The Normalize op without mean: RMS over the last axis."""
        return Normalize(name, self.eps, weight=self.weight, offset=float(self.offset), axes=axes)


class LayerNorm(Norm):
    """y = (x - mean) / sqrt(var + eps) * (offset + weight) + bias.

    Ba, Kiros & Hinton 2016, arXiv:1607.06450. `bias` false keeps the gain alone (MPT, Command R); `weight`
    and `bias` false is the non-parametric norm of OLMo (arXiv:2402.00838); `offset` 1 stores the weight minus
    one (Nemotron-4, arXiv:2402.16819). eps 1e-5 as in GPT-2.
    """

    kind: Literal["layernorm"] = "layernorm"
    eps: Positive = 1e-5
    offset: Literal[0, 1] = 0
    weight: bool = True
    bias: bool = True

    def check(self) -> Iterator[Conflict]:
        """Conflict: an offset without a weight."""
        yield from _offset_without_weight(self.offset, weight=self.weight)

    def normalize(self, name: str, axes: int = 1) -> Normalize:
        """The Normalize op with mean and variance over the last axis."""
        return Normalize(
            name,
            self.eps,
            centred=True,
            weight=self.weight,
            bias=self.bias,
            offset=float(self.offset),
            axes=axes,
        )


def has_weight(norm: Norm) -> bool:
    """Whether this is RMSNorm or LayerNorm with a gain that is trained."""
    return isinstance(norm, RMSNorm | LayerNorm) and norm.weight


def again(norm: Norm, x: Tensor, name: str) -> Tensor:
    """x [..., d] by the norm of that name in the same module, with its weights once more (`has_weight`)."""
    # made anew under the name of the first: the tape lends that op's weights
    op = cast("Normalize", norm.normalize(name))
    lent = [x.tape.weight(op, x, which=part) for part in op.weights(x.shape)]
    repeated = LentNormalize(f"{name}_again", op.eps, op.centred, op.offset)
    normalized: Tensor = repeated(x, *lent, group=norm.group)
    return normalized


def _offset_without_weight(offset: int, *, weight: bool) -> Iterator[Conflict]:
    if offset and not weight:
        yield Conflict(
            "offset-needs-weight",
            "offset",
            "offset 1 says how the weight is stored, and there is no weight",
            "leave offset out",
        )


class QKNorm(Inline):
    """A norm of queries and keys, which keeps attention logits from growing.

    Henry et al. 2020, arXiv:2010.04245; ViT-22B, arXiv:2302.05442.

    `per` head: one gain of head_dim shared by the heads (Qwen3, Gemma 3); head_distinct: a gain [heads,
    head_dim] (Command R+, StableLM 2 12B); full: one norm over heads * head_dim together (OLMo 2). `when`:
    before RoPE turns them, or after (Llama 4).
    """

    group: ClassVar[str] = "qk_norm"
    per: Literal["head", "head_distinct", "full"] = "head"
    when: Literal["before_rope", "after_rope"] = "before_rope"
    norm: Annotated[Norm, Inherit("norm")]

    def check(self) -> Iterator[Conflict]:
        """Conflict: a norm with a gain per channel, over two axes."""
        if self.per == "head_distinct" and not self.norm.per_head:
            yield Conflict(
                "batchnorm-per-channel",
                "per",
                f"{self.norm.kind} has a gain per channel, not per head and channel",
                "use per: full, or another norm",
            )

    def forward(self, x: Tensor, *, name: str) -> Tensor:
        """Normalize heads x [B, T, H, d]."""
        if self.per == "full":
            merged = MergeHeads(f"{name}_merge")(x)
            return SplitHeads(f"{name}_split", x.shape[-2])(self.norm(merged, name=name, group=self.group))
        return self.norm(x, name=name, group=self.group, axes=2 if self.per == "head_distinct" else 1)


class BatchNorm(Norm):
    """y = (x - mean) / sqrt(var + eps) * weight + bias, each channel over all tokens of the batch.

    Ioffe & Szegedy 2015, arXiv:1502.03167. Differs from LayerNorm in what is averaged over: B T tokens, not D
    channels, so that in training tokens depend on all others, later ones included. Outside of training
    running averages are used. `momentum` is the share of the running averages that a batch replaces. eps 1e-5
    and momentum 0.1 as in torch.
    """

    per_head: ClassVar[bool] = False
    kind: Literal["batchnorm"] = "batchnorm"
    eps: Positive = 1e-5
    momentum: Annotated[float, Interval(gt=0, le=1)] = 0.1

    def normalize(self, name: str, axes: int = 1) -> BatchNormalize:
        """The BatchNormalize op, with statistics of each channel (the last axis)."""
        # without `axes`: QKNorm.check refuses gains of each head
        return BatchNormalize(name, self.eps, self.momentum)


class SelfGatedRMSNorm(Norm):
    """y = n * sigmoid(W_up silu(W_down n)) with n = RMSNorm(x), for each channel; A.X K2.

    `rank` is the width of the gate's inner layer: W_down [rank, d] and W_up [d, rank] without biases.
    """

    kind: Literal["self_gated"] = "self_gated"
    eps: Positive = 1e-6
    rank: Size

    def normalize(self, name: str, axes: int = 1) -> Normalize:
        """The Normalize op without mean, whose result is gated."""
        return Normalize(name, self.eps, axes=axes)

    def forward(self, x: Tensor, *, name: str, axes: int = 1) -> Tensor:
        """Normalize x [..., d] over its last axis, and gate the result."""
        normed = self.normalize(name, axes)(x)
        low = Linear(f"{name}_gate_down", self.rank)(normed)
        low = Activate(f"{name}_gate_activation", "silu")(low)
        gate = Linear(f"{name}_gate_up", x.shape[-1])(low)
        gated: Tensor = Multiply(f"{name}_gated")(normed, Activate(f"{name}_gate", "sigmoid")(gate))
        return gated


class PrescaledRMSNorm(Norm):
    """y = z / sqrt(mean(z^2) + eps) with z = x * (1 + weight): the gain comes before the norm; Muse Spark.

    Differs from RMSNorm in the order: the result has mean square 1 whatever the gain, which says how much
    each channel takes of it. The weight is stored minus one, and starts at 0.
    """

    per_head: ClassVar[bool] = False
    kind: Literal["prescaled_rmsnorm"] = "prescaled_rmsnorm"
    eps: Positive = 1e-6

    def normalize(self, name: str, axes: int = 1) -> Normalize:
        """The Normalize op without mean or gain, which follows the gain."""
        # without `axes`: QKNorm.check refuses gains of each head
        return Normalize(name, self.eps, weight=False)

    def forward(self, x: Tensor, *, name: str, axes: int = 1) -> Tensor:
        """Scale x [..., d] channel by channel, and normalize the result over its last axis."""
        from archcli.ops import TrainedScale  # rare: Muse Spark

        scaled = TrainedScale(f"{name}_gain", per_channel=True, offset=1.0)(x)
        normalized: Tensor = self.normalize(name, axes)(scaled)
        return normalized
