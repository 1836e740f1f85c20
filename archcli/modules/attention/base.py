"""Attention: mixing by queries, keys and values; the softmax kind with its masks, scales and cache."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from archcli.arith import Number
from archcli.graph import StateContent, Tensor
from archcli.modules.attention.mixer import Mixer, MixerFacts
from archcli.modules.networks.norm import Norm
from archcli.modules.positions.position import NoPosition, Position
from archcli.modules.spec.base import Conflict, Count, Positive, Share, Size, Spec
from archcli.modules.spec.context import Context, chosen_before
from archcli.ops import (
    Attend,
    Bidirectional,
    Causal,
    Chunked,
    ExtendCache,
    Mask,
    MergeHeads,
    Parameter,
    SlidingWindow,
)

if TYPE_CHECKING:  # fields of few, imported where one is given a value
    from archcli.modules.attention.gates import OutputGate
    from archcli.modules.attention.indexer import KeyIndex
    from archcli.modules.attention.sparsity import Sparsity

CONTENT = {
    "latent": StateContent.LATENT,
    "k_pe": StateContent.LATENT,
}
"""The content of cached entries by name, where they are not keys and values."""

STABILIZERS = ("qk_norm", "softcap", "clip", "sinks")
"""Fields that keep scores from growing, in the order they are named."""


class LengthTemperature(Spec):
    """Query temperature: a factor 1 + `scale` ln(1 + floor((position + `first`) / `floor_scale`)).

    Llama 4, on layers without RoPE, counts positions from 1; Ministral 3, on all layers, from `first` 0. With
    `grows` power the factor is (1 + (position + `first`) / `floor_scale`)^`scale` (Beam), with log_above 1 +
    `scale` ln(max(1, (position + `first`) / `floor_scale`)) (Inkling).
    """

    scale: Positive = 0.1
    floor_scale: Size = 8192
    first: Literal[0, 1] = 1
    grows: Literal["log", "power", "log_above"] = "log"

    def tempered(self, x: Tensor, positions: Tensor, name: str) -> Tensor:
        """Queries x [B, T, H, d], each times the factor of its position [T]."""
        from archcli.ops import QueryTemperature  # rare: Llama 4

        power, above = self.grows == "power", self.grows == "log_above"
        op = QueryTemperature(name, self.scale, self.floor_scale, self.first, power, above)
        y: Tensor = op(x, positions)
        return y


class Attention(Mixer):
    """A mixer whose tokens have queries, keys and values, in H heads.

    `causal` false lets every token see every other (an encoder).
    """

    group: ClassVar[str] = "attention"
    n_heads: Size
    causal: bool = True
    position: Position = NoPosition()

    def facts(self, d_model: Number | None = None) -> MixerFacts:
        """Kind, heads and position, with a full or bidirectional pattern."""
        return replace(
            super().facts(d_model),
            causal=self.causal,
            n_heads=self.n_heads,
            pattern="full" if self.causal else "bidirectional",
            position=self.position,
        )


class SoftmaxAttention(Attention):
    """softmax(scale q k^T + mask) v over the tokens a mask allows.

    Subclasses say where q, k and v come from. `scale` left out is head_dim^-0.5 of the queries. `window` w
    sees the w newest tokens, itself included; `chunk` c sees its own chunk of c, `sparsity` states other
    patterns. `softcap` bounds scores by c tanh(s/c) (Gemma 2). `sinks` adds a trained logit per head to the
    softmax, whose probability is dropped (gpt-oss, arXiv:2508.10925). `normalizer` relu weighs by max(score,
    0) over the number of keys the query sees in place of the softmax (arXiv:2309.08586); `temperature`
    sharpens queries with their position. `dropout` zeroes that share of the probabilities in training.
    `output_gate` gates the result before its output projection; `inner_norm` normalizes it there, all heads
    together (SubLN, arXiv:2210.06423; BitNet). `head_norm` normalizes each head of it before the gate (Muse
    Spark).
    """

    has_scores: ClassVar[bool] = True
    window: Size | None = None
    chunk: Size | None = None
    sparsity: Sparsity | None = None
    scale: Positive | None = None
    softcap: Positive | None = None
    sinks: bool = False
    normalizer: Literal["softmax", "relu"] = "softmax"
    temperature: LengthTemperature | None = None
    dropout: Share = 0.0
    output_gate: OutputGate | None = None
    inner_norm: Norm | None = None
    head_norm: Norm | None = None

    @property
    def mask(self) -> Mask:
        """Which keys a query sees."""
        return self.own_mask()  # a method, as torch.compile reads no property of a base class

    def mask_in(self, context: Context) -> Mask:
        """Which keys a query sees in this pass."""
        return self.mask

    def own_mask(self) -> Mask:
        """The mask of the layer's own pattern."""
        if self.sparsity is not None:
            return self.sparsity.mask_of(self.n_heads)
        if not self.causal:
            return Bidirectional()
        if self.window is not None:
            return SlidingWindow(self.window)
        return Causal() if self.chunk is None else Chunked(self.chunk)

    def facts(self, d_model: Number | None = None) -> MixerFacts:
        """The facts of softmax attention: pattern of visible keys, and bounds on the scores."""
        return replace(
            super().facts(d_model),
            causal=self.mask.causal,
            window=self.window,
            chunk=self.chunk,
            sparsity=getattr(self.sparsity, "kind", None),
            sparse_window=getattr(self.sparsity, "window", None),
            pattern=self._pattern,
            stability=tuple(name for name in STABILIZERS if getattr(self, name, None)),
        )

    @property
    def _pattern(self) -> str:
        """The pattern's name: full (causal), bidirectional, or that of a window, chunk or sparsity."""
        if self.sparsity is not None:
            return getattr(self.sparsity, "kind", "sparse")
        bounds = {"window": self.window, "chunk": self.chunk}
        bounded = [f"{word} {size}" for word, size in bounds.items() if size is not None]
        return " ".join(bounded) or ("full" if self.causal else "bidirectional")

    def attend(
        self,
        context: Context,
        d_query: Number,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        name: str = "attend",
        mask: Mask | None = None,
        **optional: Tensor | None,
    ) -> Tensor:
        """Scores, softmax and mix; q [B,T,H,d], k [B,S,K,d], v [B,S,K,e] to [B,T,H,e].

        `d_query` is the width the default scale goes by. `optional` are further inputs of `Attend`: selected
        [B,T,k], the keys of an indexer's choice, or bias [B,H,T,S], the gates of keys. `mask` stands in place
        of the layer's where that does not say how many keys there are of each sort.
        """
        if self.temperature is not None:
            q = self.temperature.tempered(q, context.positions, "temper")
        scale = (d_query**-0.5 if self.scale is None else self.scale) * self.position.score_factor
        extras = (
            {"sinks": Parameter("sinks", (self.n_heads,))(q, group="attention_sinks")} if self.sinks else {}
        )
        # a shared bias [1, H, T, S] is broadcast over the batch, the other differs by sequence
        of_layer = "shared_bias" if self.position.shares_bias else "bias"
        bias = self.own_bias(context, q, k, scale)
        # never two of one key: `Stack.check` refuses a score_bias beside a position that shares its bias
        spans = context.spans if self.causal else None
        inputs = ((of_layer, bias), ("shared_bias", context.bias), ("spans", spans), *optional.items())
        extras |= {key: extra for key, extra in inputs if extra is not None}
        relu = self.normalizer == "relu"
        slope, factor = self.position.max_bias, self.position.bias_factor(scale)
        op = Attend(
            name,
            mask or self.mask_in(context),
            scale,
            context.past,
            self.softcap,
            slope,
            tuple(extras),
            relu,
            factor,
            self.dropout,
        )
        mixed: Tensor = op(q, k, v, context.positions, *extras.values())
        return mixed

    def merge(self, x: Tensor, mixed: Tensor) -> Tensor:
        """Heads mixed [B, T, H, e], gated and normalized where asked, as [B, T, H e]; x [B, T, D]."""
        if self.head_norm is not None:
            mixed = self.head_norm(mixed, name="head_norm")
        if self.output_gate is not None:
            mixed = self.output_gate(x, mixed, name="gate_proj")
        merged: Tensor = MergeHeads("merge")(mixed)
        return merged if self.inner_norm is None else self.inner_norm(merged, name="inner_norm")

    def own_bias(self, context: Context, q: Tensor, k: Tensor, scale: float) -> Tensor | None:
        """The bias [B, H, T, S] of the layer's position on its scores, or None."""
        return self.position.score_bias(q, context.positions, k.shape[1], scale)

    def extend(self, context: Context, **new: Tensor) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...] | None]:
        """Append new entries to the cached ones: what attention reads, and what the cache keeps.

        Without a cache, the new entries alone.
        """
        if context.cache is None:
            return tuple(new.values()), None
        pairs: list[Any] = []
        for i, (name, entry) in enumerate(new.items()):
            op = ExtendCache(f"{name}_cache", self.mask, content=CONTENT.get(name, StateContent.KEYS_VALUES))
            # a slice, as the cache of a pass that starts one is an empty tuple
            pairs.append(op(entry, *context.cache[i : i + 1]))
        return tuple(seen for seen, _ in pairs), tuple(kept for _, kept in pairs)

    def check(self) -> Iterator[Conflict]:
        """Conflicts of mask fields: several patterns, or a pattern that contradicts `causal`."""
        yield from super().check()
        patterns = [field for field in ("window", "chunk", "sparsity") if getattr(self, field) is not None]
        if len(patterns) > 1:
            yield Conflict(
                "one-pattern",
                patterns[1],
                f"a layer has one pattern, not {' and '.join(patterns)}",
                "leave one of them out",
            )
        if not self.causal and (self.window is not None or self.chunk is not None):
            yield Conflict(
                "window-causal", "causal", "windows and chunks are causal", "leave causal out, or the window"
            )
        if self.sparsity is not None and self.sparsity.mask.causal is not self.causal:
            sees = "looks back alone" if self.causal is False else "looks to both sides"
            yield Conflict(
                "sparsity-direction",
                "sparsity",
                f"the pattern {sees}",
                "leave causal out" if self.causal is False else "state causal: false",
            )
        if self.sparsity is not None:
            yield from (conflict.below("sparsity") for conflict in self.sparsity.check_heads(self.n_heads))
        if self.sinks and self.normalizer == "relu":
            yield Conflict(
                "sinks-need-softmax",
                "sinks",
                "sinks are logits of a softmax, and normalizer relu has none",
                "leave one of them out",
            )


class IndexedAttention(SoftmaxAttention):
    """Softmax attention whose keys an indexer may choose; without `index` a query reads all that it sees.

    `index_from` n reads what the equal index of the earlier layer n has chosen (arXiv:2603.12201).
    """

    index: KeyIndex | None = None
    index_from: Count | None = None

    def own_mask(self) -> Mask:
        """The mask; with an index, of the keys that it chooses."""
        return super().own_mask() if self.index is None else self.index.mask(self.n_heads)

    def facts(self, d_model: Number | None = None) -> MixerFacts:
        """The facts of softmax attention, and how many keys an index chooses."""
        chosen = None if self.index is None else self.index.n_keys
        return replace(super().facts(d_model), indexed=chosen, index_from=self.index_from)

    @property
    def _pattern(self) -> str:
        return super()._pattern if self.index is None else self.index.pattern

    def select(
        self, x: Tensor, queries: Tensor, context: Context, table: tuple[Tensor, Tensor] | None, held: int
    ) -> tuple[Tensor | None, tuple[Tensor, ...]]:
        """(keys [B, T, k] or blocks [B, T, I, k] chosen by the index, None without one; its cache).

        `queries` is what the index reads its queries from; the attention's own cache has `held` entries.
        """
        if self.index is None or self.index_from is not None:
            return None if self.index is None else chosen_before(context), ()
        cached = None if context.cache is None else context.cache[held:]
        # no_grad: top-k passes no gradient to scores (arXiv:2512.02556 section 2.1.1)
        chosen, kept = self.index(
            x, queries, context._replace(cache=cached), self.position, table, name="indexer", no_grad=True
        )
        return chosen, kept or ()

    def check(self) -> Iterator[Conflict]:
        """Conflicts of an index with the other fields."""
        yield from super().check()
        if self.index is not None:
            fields = (field for field in ("window", "chunk", "sparsity") if getattr(self, field) is not None)
            pattern = next(fields, None if self.causal else "causal: false")
            yield from self.index.conflicts_in(pattern, self.position, self.n_heads)

    def check_width(self, d_model: int) -> Iterator[Conflict]:
        """Conflict: an index with heads narrower than what the position turns."""
        yield from super().check_width(d_model)
        if self.index is not None:
            turned = self.position.rotary_width(self.facts(d_model).rotary_dim)
            yield from self.index.check_rotation(turned)
