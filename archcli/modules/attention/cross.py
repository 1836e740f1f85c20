"""Cross attention: a decoder's queries over an encoder's output, alone or beside its own tokens.

B batch, T new tokens, S source tokens, D d_model, H query heads, K kv heads, d head_dim.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar, Literal

from archcli.arith import Number
from archcli.errors import ArchError
from archcli.graph import Tensor
from archcli.modules.attention.grouped import ProjectedAttention
from archcli.modules.attention.mixer import MixerFacts
from archcli.modules.spec.base import Conflict, Size
from archcli.modules.spec.context import Context, Kept, or_default
from archcli.ops import Bidirectional, ExtendCache, Linear, Mask

OF_OWN = 2
"""Entries of the cache that are of a layer's own tokens: keys and values. Those of the source follow."""
NOT_MERGED = ("clip", "global_projections", "v_norm", "kv_from", "value_gate", "index")
"""Fields of attention that are not defined for keys of two sequences."""


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


class MergedAttention(ProjectedAttention):
    """o(softmax(scale q [k | k_s]^T) [v | v_s]): one softmax over own tokens and those of the source s.

    T5Gemma 2, arXiv:2512.14856. Differs from self-attention and cross attention behind each other in having
    one set of projections, and one norm of keys, for both. A query sees of its own stream what its
    pattern allows, and every source token, whose keys no position turns. Keys and values of the source are
    projected once, when the cache starts. `n_kv_heads` left out is n_heads. For decoders of an
    encoder-decoder.
    """

    title: ClassVar[str] = "Merged self- and cross-attention"
    short_title: ClassVar[str] = "merged attention"
    reads_source: ClassVar[bool] = True
    kind: Literal["merged"] = "merged"
    n_kv_heads: Size | None = None

    @property
    def kv_heads(self) -> Number:
        """K."""
        return self.n_heads if self.n_kv_heads is None else self.n_kv_heads

    def facts(self, d_model: Number | None = None) -> MixerFacts:
        """The facts of its attention to own tokens, and that a source follows."""
        known = super().facts(d_model)
        return replace(known, pattern=f"{known.pattern} + source")

    def forward(self, x: Tensor, context: Context | None = None) -> tuple[Tensor, Kept]:
        """[B, T, D] to [B, T, D]; the cache holds k and v [B, n, K, d] of own tokens, then of the source."""
        from archcli.ops import JoinBlocks, NearAndSource  # rare: T5Gemma 2

        context = or_default(x, context)
        d, cache = self.width(x.shape[-1]), context.cache
        table = context.rotary or self.table(context.positions, x.shape[-1], "rotary", x)
        q = self._placed(self._heads(x, "q", self.n_heads, d), "q", table)
        decoder, source = self._of_both(x, context, d)
        decoder["k"] = self.position.rotate(decoder["k"], table, "k_rotate")
        seen, kept = self.extend(context._replace(cache=cache and cache[:OF_OWN]), **decoder)
        k, v = (
            JoinBlocks(f"{name}_join")(near, far) for name, near, far in zip("kv", seen, source, strict=True)
        )
        mask = NearAndSource(self.own_mask(), source[0].shape[1])
        # score_bias is of distances within a stack, and the source is no part of it
        mixed = self.merge(x, self.attend(context._replace(bias=None), d, q, k, v, mask=mask))
        out = Linear("o_proj", x.shape[-1], self._biased("o"))(mixed)
        return out, None if kept is None else (*kept, *source)

    def _of_both(
        self, x: Tensor, context: Context, d: Number
    ) -> tuple[dict[str, Tensor], tuple[Tensor, ...]]:
        """Keys that are not turned yet and values, of own tokens by name, and of the source in order."""
        cached = (context.cache or ())[OF_OWN:]
        if cached:
            return self._keys_and_values(x, d), cached
        if context.memory is None:
            raise ArchError("merged attention needs the encoder's output, or a cache of its keys and values")
        from archcli.ops import ConcatTokens, Split  # rare: T5Gemma 2

        read = ConcatTokens("read")(x, context.memory)
        lengths = x.shape[1], context.memory.shape[1]
        parted = {
            name: Split(f"{name}_parts", lengths, axis=1)(entry)
            for name, entry in self._keys_and_values(read, d).items()
        }
        decoder, source = ({name: parts[i] for name, parts in parted.items()} for i in range(2))
        if context.cache is None:
            return decoder, tuple(source.values())
        kept = [
            ExtendCache(f"{name}_source_cache", Bidirectional(), cross=True)(entry)[0]
            for name, entry in source.items()
        ]
        return decoder, tuple(kept)

    def _keys_and_values(self, x: Tensor, d: Number) -> dict[str, Tensor]:
        """Keys [B, n, K, d], normalized and not turned, and values [B, n, K, e]."""
        k = self._heads(x, "k", self.kv_heads, d)
        return {"k": k if self.qk_norm is None else self.qk_norm(k, name="k_norm"), "v": self._values(x, d)}

    def check(self) -> Iterator[Conflict]:
        """Conflicts: not causal, a norm behind RoPE, positions of other kinds, chosen keys."""
        yield from super().check()
        values = {name: getattr(self, name) for name in NOT_MERGED}
        others = [name for name, value in values.items() if value is not None and value is not False]
        others += ["causal: false"] * (not self.causal) + ["normalizer: relu"] * (self.normalizer == "relu")
        others += ["values"] * (self.values != "projected")
        others += ["a norm after RoPE"] * (self.qk_norm is not None and self.qk_norm.when == "after_rope")
        # a bias of the position has a place for each own token, and none for the source
        others += ["position"] * (self.position.acts_on in {"keys", "scores"} or self.position.shares_bias)
        if others:
            what = f"{others[0]} is not defined for merged attention"
            yield Conflict("merged-plain", others[0].split()[0].rstrip(":"), what, "leave it out")
