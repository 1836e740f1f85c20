"""Attention with short convolutions over queries, keys or values.

B batch, T new tokens, S visible tokens, D d_model, H query heads, K kv heads, d head_dim, e width of a
value.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar, Literal

from archcli.arith import Number
from archcli.graph import Tensor
from archcli.modules.attention.base import SoftmaxAttention
from archcli.modules.attention.grouped import ProjectedHeads, Projection, uneven_groups
from archcli.modules.attention.mixer import MixerFacts, RecurrenceFacts
from archcli.modules.networks.convolved import Window, with_convolution
from archcli.modules.networks.norm import RMSNorm
from archcli.modules.spec.base import Conflict, Size
from archcli.modules.spec.context import Context, Kept, or_default
from archcli.ops import (
    Add,
    AverageHeads,
    Concat,
    ConvPair,
    Linear,
    Multiply,
    Parameter,
    RelativeProfiles,
    Split,
    SplitHeads,
    TokenShift,
)

WINDOWS = 2
"""Where in the cache the windows begin, behind keys and values."""


class ConvolvedAttention(SoftmaxAttention, ProjectedHeads):
    """c(o(softmax(scale q c(k)^T + b) c(v))) with c(x) = x + conv(x) and b_ij = r_i . p_(i-j).

    Inkling (Thinking Machines).

    Each of the three convolutions is causal, of `conv_kernel` taps, one for each channel. r = Wr x gives
    every query head `relative_rank` numbers, p is a trained table of as many profiles over the
    `relative_extent` newest distances; older keys have no bias. `temperature` is of queries and biases.
    Caches K (d + e) elements per token, and the last inputs of the convolutions, `conv_kernel` of each.
    """

    title: ClassVar[str] = "Convolved attention"
    short_title: ClassVar[str] = "convolved"
    kind: Literal["conv_gqa"] = "conv_gqa"
    n_kv_heads: Size
    relative_rank: Size
    relative_extent: Size
    conv_kernel: Size = 4

    @property
    def kv_heads(self) -> Number:
        """K."""
        return self.n_kv_heads

    def facts(self, d_model: Number | None = None) -> MixerFacts:
        """The facts of its attention, and the taps of its convolutions."""
        return replace(super().facts(d_model), recurrence=RecurrenceFacts(conv_kernel=self.conv_kernel))

    def forward(self, x: Tensor, context: Context | None = None) -> tuple[Tensor, Kept]:
        """[B, T, D] to [B, T, D]; the cache holds k, v, and the windows of the convolutions of k, v and o."""
        context = or_default(x, context)
        d = self.width(x.shape[-1])
        table = context.rotary or self.table(context.positions, x.shape[-1], "rotary", x)
        q = self._placed(self._heads(x, "q", self.n_heads, d), "q", table)
        k, of_k = self._convolved(x, "k", d, context)
        v, of_v = self._convolved(x, "v", d if self.v_head_dim is None else self.v_head_dim, context)
        (k, v), kept = self.extend(context, k=self._placed(k, "k", table), v=v)
        # `own_bias` is called within `attend`, and finds the mixture in the context
        mixed = self.attend(context._replace(relative=self._mixture(x, context)), d, q, k, v)
        y = Linear("o_proj", x.shape[-1], self._biased("o"))(self.merge(x, mixed))
        y, of_o = with_convolution(y, "o_conv", self.conv_kernel, self._window(context, 2))
        return y, None if kept is None else (*kept, *of_k, *of_v, *of_o)

    def _convolved(
        self, x: Tensor, which: Projection, width: Number, context: Context
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Keys or values [B, T, K, width] behind their convolution, and its new window."""
        window = self._window(context, "kv".index(which))
        projected = self._projected(x, which, self.kv_heads * width)
        y, last = with_convolution(projected, f"{which}_conv", self.conv_kernel, window)
        return SplitHeads(f"{which}_heads", self.kv_heads)(y), last

    def _window(self, context: Context, index: int) -> Window:
        """The cached inputs of one of the three convolutions."""
        at = WINDOWS + index
        return None if context.cache is None else context.cache[at : at + 1]

    def _mixture(self, x: Tensor, context: Context) -> Tensor:
        """The numbers [B, T, H, R] by which each query mixes the profiles."""
        mixture: Tensor = SplitHeads("r_heads", self.n_heads)(
            Linear("r_proj", self.n_heads * self.relative_rank)(x)
        )
        if self.temperature is not None:
            mixture = self.temperature.tempered(mixture, context.positions, "r_temper")
        return mixture

    def own_bias(self, context: Context, q: Tensor, k: Tensor, scale: float) -> Tensor | None:
        """The biases on scores by the distance of query and key, [B, H, T, S]."""
        mixture: Any = context.relative
        bias: Tensor = RelativeProfiles("profiles", self.relative_extent, k.shape[1])(
            mixture, context.positions
        )
        return bias

    def check(self) -> Iterator[Conflict]:
        """Conflicts: heads that do not divide, a second bias of scores, and attention to both sides."""
        yield from super().check()
        yield from uneven_groups(self.n_heads, self.n_kv_heads)
        if self.position.acts_on in {"keys", "scores"}:
            what = "the scores have biases by distance already"
            yield Conflict("conv-gqa-position", "position", what, "use position: rope, or leave it out")
        if not self.causal:
            what = "its convolutions and biases look back alone"
            yield Conflict("conv-gqa-causal", "causal", what, "leave causal out")


LENGTH = RMSNorm(eps=1e-12, weight=False)
"""The norm that brings queries and keys to the length sqrt(d)."""
WINDOW, LAST = 2, 3
"""Where in the cache, behind keys and values, the inputs of the convolutions lie, and the last token."""


class CompressedAttention(SoftmaxAttention):
    """o(softmax(scale q k^T) v) with queries and keys mixed by convolutions (CCA). arXiv:2510.04476.

        q', k' = (q_h + k_g) / 2, and its mean over the heads of g        q, k = Wq x, Wk x
        q = sqrt(d) u(conv(q) + q'),  k = c_g sqrt(d) u(conv(k) + k')     u(z) = z / |z|, c trained
        v_t = [Wv x_t, Wv' x_(t-1)]

    conv is a causal convolution of each channel, of `depthwise_kernel` taps, and one within each head of q
    and k, of `grouped_kernel` taps, both biased. `bias` biases the projections. Caches 2 K d elements per
    token, the newest inputs of the convolutions, and half a value (ZAYA1).
    """

    title: ClassVar[str] = "Compressed convolutional attention"
    short_title: ClassVar[str] = "compressed"
    kind: Literal["cca"] = "cca"
    n_kv_heads: Size
    head_dim: Size
    depthwise_kernel: Size = 2
    grouped_kernel: Size = 2
    bias: bool = False

    def facts(self, d_model: Number | None = None) -> MixerFacts:
        """Heads and their width, and the taps of both convolutions together."""
        # two causal convolutions in a row see k1 + k2 - 1 tokens
        d, taps = self.head_dim, self.depthwise_kernel + self.grouped_kernel - 1
        return replace(
            super().facts(d_model),
            n_kv_heads=self.n_kv_heads,
            head_dim=d,
            v_head_dim=d,
            content_dim=d,
            rotary_dim=d,
            recurrence=RecurrenceFacts(conv_kernel=taps),
        )

    def table(
        self, positions: Tensor, d_model: Number, name: str, like: Tensor | None = None
    ) -> tuple[Tensor, Tensor] | None:
        """The rotary table of heads of width d."""
        return self.position.table(positions, self.head_dim, name, like)

    def forward(self, x: Tensor, context: Context | None = None) -> tuple[Tensor, Kept]:
        """[B, T, D] to [B, T, D]; the cache holds k, v, inputs of the convolutions, and half a value."""
        context = or_default(x, context)
        table = context.rotary or self.table(context.positions, x.shape[-1], "rotary", x)
        cache = context.cache
        q, k, window = self._mixed(x, None if cache is None else cache[WINDOW:LAST])
        q = self.position.rotate(self._of_length(q, "q"), table, "q_rotate")
        k = self.position.rotate(self._scaled(self._of_length(k, "k")), table, "k_rotate")
        v, last = self._values(x, None if cache is None else cache[LAST:])
        (k, v), kept = self.extend(context, k=k, v=v)
        merged = self.merge(x, self.attend(context, self.head_dim, q, k, v))
        y = Linear("o_proj", x.shape[-1], self.bias)(merged)
        return y, None if kept is None else (*kept, *window, *last)

    def _mixed(
        self, x: Tensor, window: tuple[Tensor, ...] | None
    ) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
        """Queries [B, T, H, d] and keys [B, T, K, d] behind the convolutions, and the new window."""
        heads, d = (self.n_heads, self.n_kv_heads), self.head_dim
        q, k = (Linear(f"{w}_proj", n * d, self.bias)(x) for w, n in zip("qk", heads, strict=True))
        conv = ConvPair("conv", self.depthwise_kernel, self.grouped_kernel, sum(heads), window is not None)
        joined, *last = conv(Concat("qk")(q, k), *(window or ()))
        # means are of q and k as projected, not as convolved (transformers' ZayaCCAProjection)
        projected = (SplitHeads(f"{w}_heads", n)(y) for w, n, y in zip("qk", heads, (q, k), strict=True))
        means = AverageHeads("qk_average")(*projected)
        parts = Split("qk_split", (heads[0] * d, heads[1] * d))(joined)
        q, k = (
            Add(f"{w}_add")(SplitHeads(f"{w}_conv_heads", n)(part), mean)
            for w, n, part, mean in zip("qk", heads, parts, means, strict=True)
        )
        return q, k, tuple(last)

    def _of_length(self, x: Tensor, which: str) -> Tensor:
        normalized: Tensor = LENGTH(x, name=f"{which}_norm", group="qk_norm")
        return normalized

    def _scaled(self, k: Tensor) -> Tensor:
        """Keys times the trained number of their head."""
        factor = Parameter("k_scale", (self.n_kv_heads, 1))(k, group="qk_norm")
        scaled: Tensor = Multiply("k_scaled")(k, factor, group="qk_norm")
        return scaled

    def _values(self, x: Tensor, last: tuple[Tensor, ...] | None) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Values [B, T, K, d], half of each from the token before, and the cached half of the last token."""
        half = self.n_kv_heads * self.head_dim // 2
        now, late = Linear("v_proj", half, self.bias)(x), Linear("v_late_proj", half)(x)
        late, *kept = TokenShift("v_shift", last is not None)(late, *(last or ()))
        if self.bias:
            # behind the shift: the token before the first is zero, and its projection is the bias (ZAYA1)
            late = Add("v_late_biased", meets=False)(late, Parameter("v_late_bias", (half,))(x))
        v: Tensor = SplitHeads("v_heads", self.n_kv_heads)(Concat("v")(now, late))
        return v, tuple(kept)

    def check(self) -> Iterator[Conflict]:
        """Conflicts: heads that do not divide, values that have no half, and attention to both sides."""
        yield from super().check()
        yield from uneven_groups(self.n_heads, self.n_kv_heads)
        if self.n_kv_heads * self.head_dim % 2:
            what = f"the values of {self.n_kv_heads} heads of {self.head_dim} have no halves"
            yield Conflict("cca-halves", "head_dim", what, "make it even")
        if not self.causal:
            what = "its convolutions look back alone"
            yield Conflict("cca-causal", "causal", what, "leave causal out")

    def check_width(self, d_model: int) -> Iterator[Conflict]:
        """Conflicts of the position with heads of width d."""
        for conflict in self.position.check_width(self.head_dim):
            yield conflict._replace(path="head_dim") if conflict.path == "position" else conflict
