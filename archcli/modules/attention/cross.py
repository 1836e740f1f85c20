"""Cross attention: a decoder's queries over an encoder's output.

B batch, T new tokens, S source tokens, D d_model, H query heads, K kv heads, d head_dim.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

from archcli.arith import Number
from archcli.errors import ArchError
from archcli.graph import Tensor
from archcli.modules.attention.grouped import ProjectedAttention
from archcli.modules.spec.base import Conflict, Size
from archcli.modules.spec.context import Context, or_default
from archcli.ops import Bidirectional, ExtendCache, Linear, Mask


class CrossAttention(ProjectedAttention):
    """o(softmax(scale q k^T) v) with q from the decoder, k and v from the encoder's output.

    Vaswani et al. 2017, arXiv:1706.03762 section 3.2.3.

    Every query sees every source token. k and v are projected once, when the cache starts, and then kept:
    their size goes by the source's length, not by what is generated. `n_kv_heads` left out is n_heads. `idle`
    states weights that no pass reads: of a decoder that was made for an encoder and runs without one.
    """

    title: ClassVar[str] = "Cross-attention"
    short_title: ClassVar[str] = "cross-attention"
    family: ClassVar[str] = "cross_attention"
    kind: Literal["cross"] = "cross"
    n_kv_heads: Size | None = None
    idle: bool = False

    @property
    def kv_heads(self) -> Number:
        """K."""
        return self.n_heads if self.n_kv_heads is None else self.n_kv_heads

    @property
    def mask(self) -> Mask:
        """No mask: every source position is visible."""
        return Bidirectional()

    def forward(self, x: Tensor, context: Context | None = None) -> tuple[Tensor, tuple[Tensor, ...] | None]:
        """[B, T, D] to [B, T, D]; the cache holds k [B, S, K, d] and v [B, S, K, e] of the source."""
        context = or_default(x, context)
        d = self.width(x.shape[-1])
        q = self._placed(self._heads(x, "q", self.n_heads, d), "q", None)
        # an empty cache is false, too: the pass that starts one projects the source
        k, v = context.cache or self._source(context, d)
        # score_bias is of distances within a stack; T5's cross attention has none
        mixed = self.merge(x, self.attend(context._replace(bias=None), d, q, k, v))
        y: Tensor = Linear("o_proj", x.shape[-1], self._biased("o"))(mixed)
        return y, None if context.cache is None else (k, v)

    def _source(self, context: Context, d: Number) -> tuple[Tensor, Tensor]:
        """Keys and values of the encoder's output, put into the cache at its first use."""
        if context.memory is None:
            raise ArchError(
                "cross attention needs the encoder's output, or a cache that holds its keys and values"
            )
        entries = self._entries(context.memory, d, None)
        k, v = entries["k"], entries["v"]
        if context.cache is not None:
            (k, _), (v, _) = (
                ExtendCache("k_cache", Bidirectional(), cross=True)(k),
                ExtendCache("v_cache", Bidirectional(), cross=True)(v),
            )
        return k, v

    def check(self) -> Iterator[Conflict]:
        """Conflict: an index or a gate, which choose among earlier tokens of the layer's own stream."""
        yield from super().check()
        if self.index is not None or self.index_from is not None:
            what = "an index chooses of the tokens of its own stream"
            yield Conflict("index-of-source", "index", what, "leave index out of cross attention")
        if self.value_gate is not None:
            what = "value_gate chooses of the tokens of its own stream"
            yield Conflict("gate-of-source", "value_gate", what, "leave value_gate out of cross attention")
