"""Attention with short convolutions over keys, values and result, and biases mixed of profiles.

B batch, T new tokens, S visible tokens, D d_model, H query heads, K kv heads, d head_dim, e width of a value.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Literal

from archcli.arith import Number
from archcli.graph import Tensor
from archcli.modules.attention.base import SoftmaxAttention
from archcli.modules.attention.grouped import ProjectedHeads, Projection, uneven_groups
from archcli.modules.base import Conflict, Size
from archcli.modules.context import Context, or_default
from archcli.modules.convolved import Window, with_convolution
from archcli.modules.mixer import Kept, MixerFacts, RecurrenceFacts
from archcli.ops import Linear, RelativeProfiles, SplitHeads

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
        """Of each query the numbers [B, T, H, R] by which it mixes the profiles."""
        mixture: Tensor = SplitHeads("r_heads", self.n_heads)(
            Linear("r_proj", self.n_heads * self.relative_rank)(x)
        )
        if self.temperature is not None:
            mixture = self.temperature.tempered(mixture, context.positions, "r_temper")
        return mixture

    def own_bias(self, context: Context, q: Tensor, k: Tensor, scale: float) -> Tensor | None:
        """What each query adds to the scores of its keys by their distance, [B, H, T, S]."""
        mixture: Any = context.relative
        bias: Tensor = RelativeProfiles("profiles", self.relative_extent, k.shape[1])(
            mixture, context.positions
        )
        return bias

    def check(self) -> Iterator[Conflict]:
        """Conflicts: heads that do not divide, and what would add to the scores, or scale them, beside."""
        yield from super().check()
        yield from uneven_groups(self.n_heads, self.n_kv_heads)
        if self.position.acts_on in {"keys", "scores"}:
            what = "the scores have biases by distance already"
            yield Conflict("conv-gqa-position", "position", what, "use position: rope, or leave it out")
        if not self.causal:
            what = "its convolutions and biases look back alone"
            yield Conflict("conv-gqa-causal", "causal", what, "leave causal out")
