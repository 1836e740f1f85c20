"""Differential attention: the difference of two softmaxes, in which common noise cancels.

B batch, T new tokens, S visible tokens, D d_model, H query heads, K kv heads, d head_dim, e width of a value.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from archcli.arith import Number
from archcli.graph import Tensor
from archcli.modules.attention.base import SoftmaxAttention
from archcli.modules.attention.grouped import ProjectedHeads, uneven_groups
from archcli.modules.networks.norm import Norm
from archcli.modules.spec.base import Conflict, Inherit, Positive, Size
from archcli.modules.spec.context import Context, or_default
from archcli.ops import Concat, Linear, Scale, Split, WeightedDifference


class DifferentialAttention(SoftmaxAttention, ProjectedHeads):
    """o((1 - l) N((softmax(q1 k1^T) - lambda softmax(q2 k2^T)) [v1 | v2])), with l `lambda_init`.

    Ye et al. 2024, arXiv:2410.05258; DiffLlama.

    Queries, keys and values lie in two halves of their heads. A difference has H/2 heads of 2e, whose norm N
    is `norm`; lambda is trained, and starts at l, which the paper lowers from layer to layer. Scores are
    computed anew for v1 and v2, as DiffLlama's class does. Caches K (d + e) elements per token, as GQA.
    """

    title: ClassVar[str] = "Differential attention"
    short_title: ClassVar[str] = "differential"
    head_parts: ClassVar[int] = 2
    """Numbers of heads are multiples of it: the two halves are compared."""

    kind: Literal["differential"] = "differential"
    n_kv_heads: Size
    lambda_init: Positive
    norm: Annotated[Norm, Inherit("norm")]

    @property
    def kv_heads(self) -> Number:
        """K."""
        return self.n_kv_heads

    def forward(self, x: Tensor, context: Context | None = None) -> tuple[Tensor, tuple[Tensor, ...] | None]:
        """[B, T, D] to [B, T, D]; the cache holds k [B, n, K, d] and v [B, n, K, e]."""
        context = or_default(x, context)
        d = self.width(x.shape[-1])
        table = context.rotary or self.table(context.positions, x.shape[-1], "rotary", x)
        q = self._placed(self._heads(x, "q", self.n_heads, d), "q", table)
        k = self._placed(self._heads(x, "k", self.kv_heads, d), "k", table)
        v = self._heads(x, "v", self.kv_heads, d if self.v_head_dim is None else self.v_head_dim)
        (k, v), kept = self.extend(context, k=k, v=v)
        first, second = self._both(context, d, q, k, v)
        mixed = self.norm(
            WeightedDifference("difference", d, self.lambda_init)(first, second), name="difference_norm"
        )
        merged = self.merge(x, Scale("difference_scale", 1 - self.lambda_init)(mixed))
        return Linear("o_proj", x.shape[-1], self._biased("o"))(merged), kept

    def _both(self, context: Context, d: Number, q: Tensor, k: Tensor, v: Tensor) -> Iterator[Tensor]:
        """The two results [B, T, H/2, 2e], each of one half of queries and keys and both halves of values."""
        halves = (self.n_heads // 2,) * 2
        queries = Split("q_halves", halves, axis=2)(q)
        keys, values = (
            Split(f"{name}_halves", (self.kv_heads // 2,) * 2, axis=2)(heads)
            for name, heads in (("k", k), ("v", v))
        )
        biases = (None, None) if context.bias is None else Split("bias_halves", halves, axis=1)(context.bias)
        for i, (half, seen, bias) in enumerate(zip(queries, keys, biases, strict=True), 1):
            within = context._replace(bias=bias)
            # a call for each half of the values: fused kernels want values as wide as keys (DiffLlama)
            mixed = [
                self.attend(within, d, half, seen, value, f"attend_{i}_{j}")
                for j, value in enumerate(values, 1)
            ]
            yield Concat(f"joined_{i}")(*mixed)

    def check(self) -> Iterator[Conflict]:
        """Conflicts: heads that have no halves, and fields that are defined for one softmax."""
        yield from super().check()
        for field in ("n_heads", "n_kv_heads"):
            if getattr(self, field) % 2:
                what = f"{field} {getattr(self, field)} has no halves"
                yield Conflict("differential-heads-even", field, what, "make it even")
        yield from uneven_groups(self.n_heads, self.n_kv_heads)
        if self.lambda_init >= 1:
            what = f"lambda_init must be below 1, not {self.lambda_init:g}"
            yield Conflict("lambda-below-one", "lambda_init", what, "the paper starts at 0.2 to 0.8")
        on_scores = self.position.acts_on in {"keys", "scores"}
        single = {"sinks": self.sinks, "temperature": self.temperature, "position": on_scores}
        for field in (name for name, value in single.items() if value):
            what = f"{field} is defined for one softmax, and differential attention has two"
            yield Conflict("one-softmax", field, what, "leave it out")
