"""Mixture of attention heads: a router gives each token the query heads of k of E experts.

B batch, T new tokens, D d_model, E experts, k experts per token, H query heads of a token, K = H / k heads
of an expert, d head_dim, N = B T.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar, Literal

from archcli.arith import Number, ceil_div
from archcli.graph import Experts, Tensor
from archcli.modules.attention.base import SoftmaxAttention
from archcli.modules.attention.grouped import uneven_heads
from archcli.modules.attention.mixer import MixerFacts
from archcli.modules.networks.experts import Router, too_many_visits
from archcli.modules.spec.base import Conflict, Module, Size
from archcli.modules.spec.context import Context, or_default
from archcli.ops import (
    Add,
    CollectHeads,
    Combine,
    Dispatch,
    Linear,
    Parameter,
    SplitHeads,
    SpreadHeads,
)

UNSUPPORTED = ("sinks", "output_gate", "inner_norm")
"""Fields of softmax attention that are not defined where heads differ by token."""


class ExpertProjection(Module):
    """y = x W^T with a matrix for each expert; `out` numbers come out."""

    out: Size

    def forward(self, x: Tensor) -> Tensor:
        """[N k, in] to [N k, out]."""
        y: Tensor = Linear("proj", self.out)(x)
        return y


class MixtureOfHeads(SoftmaxAttention):
    """sum over the chosen k experts of weight * o_e(softmax(scale q_e k^T) v), K heads each.

    Zhang et al. 2022, arXiv:2210.05144; JetMoE, arXiv:2404.07413.

    Experts have queries and output projections of their own, and share keys and values: head h of each
    attends to kv head h. `n_heads` is H, the heads of all k together. `head_dim` left out is d_model /
    n_heads. `out_bias` adds a bias to what the experts add up to. Caches 2 K d elements per token.
    """

    title: ClassVar[str] = "Mixture of attention heads"
    short_title: ClassVar[str] = "mixture of heads"
    kind: Literal["moa"] = "moa"
    n_experts: Size
    top_k: Size
    head_dim: Size | None = None
    router: Router = Router(scores="softmax_after")
    out_bias: bool = False

    def width(self, d_model: Number) -> Number:
        """d, the width of a head."""
        return d_model // self.n_heads if self.head_dim is None else self.head_dim

    @property
    def kv_heads(self) -> Number:
        """K, the heads of an expert: n_heads / top_k, rounded up."""
        return ceil_div(self.n_heads, self.top_k)

    def facts(self, d_model: Number | None = None) -> MixerFacts:
        """Heads and their widths."""
        known = self.head_dim is not None or d_model is not None
        d = self.width(d_model) if known else None
        return replace(
            super().facts(d_model),
            n_kv_heads=self.kv_heads,
            head_dim=d,
            v_head_dim=d,
            content_dim=d,
            rotary_dim=d,
        )

    def table(
        self, positions: Tensor, d_model: Number, name: str, like: Tensor | None = None
    ) -> tuple[Tensor, Tensor] | None:
        """The rotary table of heads of width d."""
        return self.position.table(positions, self.width(d_model), name, like)

    def forward(self, x: Tensor, context: Context | None = None) -> tuple[Tensor, tuple[Tensor, ...] | None]:
        """[B, T, D] to [B, T, D]; the cache holds k and v, [B, n, K, d] each."""
        context = or_default(x, context)
        d, heads = self.width(x.shape[-1]), self.kv_heads
        weights, index = self.router(x, self.n_experts, self.top_k, name="router")
        tokens, expert_of, order = Dispatch("dispatch")(x, index)
        q = CollectHeads("q_heads", heads)(
            self._projected(tokens, expert_of, heads * d, "q_experts"), index, order
        )
        table = context.rotary or self.table(context.positions, x.shape[-1], "rotary", x)
        k = SplitHeads("k_heads", heads)(Linear("k_proj", heads * d)(x))
        v = SplitHeads("v_heads", heads)(Linear("v_proj", heads * d)(x))
        q, k = self.position.rotate(q, table, "q_rotate"), self.position.rotate(k, table, "k_rotate")
        (k, v), kept = self.extend(context, k=k, v=v)
        mixed = SpreadHeads("mixed_heads")(self.attend(context, d, q, k, v), index, order)
        y = Combine("combine")(self._projected(mixed, expert_of, x.shape[-1], "o_experts"), weights, order)
        if self.out_bias:
            y = Add("out_bias_add", meets=False)(y, Parameter("out_bias", (x.shape[-1],))(x))
        return y, kept

    def _projected(self, x: Tensor, expert_of: Tensor, out: Number, name: str) -> Tensor:
        """Tokens [N k, in] by the matrices of their experts, [N k, out]."""
        experts = Experts(self.n_experts, self.top_k)
        # unchecked: out may be a symbol or an array
        project: Any = ExpertProjection.unchecked(out=out)
        y: Tensor = project(x, name=name, group="experts", experts=experts, index=expert_of)
        return y

    def check(self) -> Iterator[Conflict]:
        """Conflicts: more experts per token than there are; fields that heads by token cannot have."""
        yield from super().check()
        if self.top_k > self.n_experts:
            yield too_many_visits(self.top_k, self.n_experts)
        elif self.n_heads % self.top_k:
            what = f"n_heads {self.n_heads} are not {self.top_k} times as many of an expert"
            yield Conflict("top-k-divides-heads", "n_heads", what, "use a multiple of top_k")
        for field in UNSUPPORTED:
            if getattr(self, field):
                what = f"a mixture of attention heads has no {field}"
                yield Conflict("mixture-plain", field, what, "leave it out")

    def check_width(self, d_model: int) -> Iterator[Conflict]:
        """Conflicts with width D: n_heads must divide it unless head_dim is given; RoPE needs even widths."""
        if self.head_dim is None and d_model % self.n_heads:
            yield uneven_heads(self.n_heads, d_model)
        else:
            yield from self.position.check_width(self.width(d_model))
