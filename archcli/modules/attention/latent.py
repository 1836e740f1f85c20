"""Multi-head latent attention (MLA): keys and values rebuilt from one small cached latent per token.

B batch, T new tokens, S visible tokens, D d_model, H heads, n qk_nope_head_dim, r qk_rope_head_dim, v
v_head_dim, c kv_lora_rank.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, ClassVar, Literal

from archcli.arith import Number
from archcli.graph import Tensor
from archcli.modules.attention.base import IndexedAttention
from archcli.modules.attention.mixer import MixerFacts
from archcli.modules.networks.norm import Norm
from archcli.modules.spec.base import Conflict, Count, Inherit, Positive, Size
from archcli.modules.spec.context import Context, borrowed, lent, or_default
from archcli.modules.spec.request import Forms
from archcli.ops import Activate, Concat, Einsum, Linear, Multiply, Scale, Split, SplitHeads, Unsqueeze

LATENT = "mla_latent_norm"


class MultiHeadLatentAttention(IndexedAttention):
    """Queries, keys and values from small latents. DeepSeek-V2, arXiv:2405.04434 section 2.1.

    Caches c + r elements per token, whatever the number of heads. The latent is cached after its norm; k_pe
    is turned by RoPE and shared by all heads.

        q = Wqb norm(Wqa x)  [H, n + r]     (q = Wq x where q_lora_rank is left out)
        latent, k_pe = split(Wkva x)        [c], [r]
        k_nope, v = split(Wkvb latent)      [H, n], [H, v]
        o = Wo softmax(scale [q_nope | q_pe] [k_nope | k_pe]^T) v,  scale (n + r)^-0.5

    `form` naive rebuilds keys and values of every visible token; absorbed multiplies Wkvb into the queries
    and outputs instead, so that attention runs on the latents themselves: the same weights and result, other
    FLOPs. auto is absorbed where a token is decoded, as engines do, and naive elsewhere; a built model that
    serves every phase is naive. `bias` biases Wqa, Wkva and Wo. `q_multiplier` and `kv_multiplier` scale the
    normalized latents (LongCat-Flash sqrt(D / rank), arXiv:2509.01322 section 2.3). `k_pe_norm` normalizes
    k_pe before RoPE turns it. `kv_from` n reads the latents of layer n, counted from 0, and caches none.
    r left out is 0, and there is no k_pe (GLM-5.3). `query_gate` makes the queries, and a gate of the result,
    of their latent after its norm and before it (A.X K2):

        q, g = split(Wqg [norm(Wqa x) | Wqa x])  [H, n + r], [H, v]
        o = Wo (sigmoid(g) softmax(...) v)
    """

    title: ClassVar[str] = "Multi-head latent attention"
    short_title: ClassVar[str] = "latent attention"
    # absorbed in decode: one query does not pay for rebuilding the keys and values of all tokens
    forms: ClassVar[Forms | None] = Forms(
        "mla", {"forward": "naive", "train": "naive", "prefill": "naive", "decode": "absorbed"}
    )
    narrows: ClassVar[bool] = True
    kind: Literal["mla"] = "mla"
    q_lora_rank: Size | None = None
    kv_lora_rank: Size
    qk_nope_head_dim: Size
    qk_rope_head_dim: Size | None = None
    v_head_dim: Size
    bias: bool = False
    latent_norm: Annotated[Norm, Inherit("norm")]
    k_pe_norm: Norm | None = None
    q_multiplier: Positive = 1.0
    kv_multiplier: Positive = 1.0
    query_gate: bool = False
    form: Literal["auto", "naive", "absorbed"] = "auto"
    kv_from: Count | None = None

    def facts(self, d_model: Number | None = None) -> MixerFacts:
        """Widths of the heads that are rebuilt from the latent."""
        return replace(
            super().facts(d_model),
            is_latent=True,
            head_dim=self._d_query,
            v_head_dim=self.v_head_dim,
            content_dim=self.qk_nope_head_dim,
            rotary_dim=self._turned,
        )

    def table(
        self, positions: Tensor, d_model: Number, name: str, like: Tensor | None = None
    ) -> tuple[Tensor, Tensor] | None:
        """The rotary table of the r rotary dims."""
        if self.qk_rope_head_dim is None:
            return None
        return self.position.table(positions, self.qk_rope_head_dim, name, like)

    def forward(self, x: Tensor, context: Context | None = None) -> tuple[Tensor, tuple[Tensor, ...] | None]:
        """[B, T, D] to [B, T, D]; the cache holds the latent [B, n, c] and k_pe [B, n, 1, r]."""
        context = or_default(x, context)
        table = context.rotary or self.table(context.positions, x.shape[-1], "rotary", x)
        q, source, *gate = self._queries(x)
        queries = self._split_queries(q, table)
        if self.kv_from is None:
            entries, kept = self.extend(context, **self._latents(x, table))
        else:
            entries, kept = borrowed(context)
        # what a layer lends may end in the choice of its index
        latent, *k_pe = entries[: len(queries)]
        chosen, index_keys = self.select(x, source, context, table, held=len(kept or ()))
        mix = self._absorbed if self.form == "absorbed" else self._naive
        mixed = mix(context, queries, latent, k_pe, chosen)
        for values in gate:
            mixed = Multiply("query_gated")(mixed, Activate("query_gate", "sigmoid")(values))
        mixed = self.merge(x, mixed)
        out = Linear("o_proj", context.width_of(x), self.bias)(mixed)
        return out, lent(context, None if kept is None else (*kept, *index_keys), (latent, *k_pe), chosen)

    def _latents(self, x: Tensor, table: tuple[Tensor, Tensor] | None) -> dict[str, Tensor]:
        """The latent [B, T, c] of tokens x, and their rotary key [B, T, 1, r] if they have one."""
        compressed = Linear("kv_a_proj", self.kv_lora_rank + self._turned, self.bias)(x)
        if self.qk_rope_head_dim is None:
            return {"latent": self._normed(compressed, "kv_a", self.kv_multiplier)}
        latent, k_pe = Split("kv_a_split", (self.kv_lora_rank, self.qk_rope_head_dim))(compressed)
        latent = self._normed(latent, "kv_a", self.kv_multiplier)
        if self.k_pe_norm is not None:
            k_pe = self.k_pe_norm(k_pe, name="k_pe_norm", group=LATENT)
        k_pe = self.position.rotate(Unsqueeze("k_pe_head")(k_pe), table, "k_rotate")
        return {"latent": latent, "k_pe": k_pe}

    def _queries(self, x: Tensor) -> tuple[Tensor, ...]:
        """Queries [B, T, H, n + r]; their source, the normalized latent or x; a gate [B, T, H, v] if any."""
        source, name = x, "q_proj"
        if self.q_lora_rank is not None:
            compressed = Linear("q_a_proj", self.q_lora_rank, self.bias)(x)
            source, name = self._normed(compressed, "q_a", self.q_multiplier), "q_b_proj"
            if self.query_gate:
                return self._gated_queries(source, compressed)
        q = Linear(name, self.n_heads * self._d_query)(source)
        return SplitHeads("q_heads", self.n_heads)(q), source

    def _split_queries(self, q: Tensor, table: tuple[Tensor, Tensor] | None) -> tuple[Tensor, ...]:
        """Queries [B, T, H, n], and behind them their rotary dims [B, T, H, r] if they have some."""
        if self.qk_rope_head_dim is None:
            return (q,)
        q_nope, q_pe = Split("q_split", (self.qk_nope_head_dim, self.qk_rope_head_dim))(q)
        return q_nope, self.position.rotate(q_pe, table, "q_rotate")

    def _gated_queries(self, source: Tensor, compressed: Tensor) -> tuple[Tensor, ...]:
        """Queries, the normalized latent, and the gate, by one projection of both latents [B, T, q]."""
        width = self._d_query + self.v_head_dim
        both = Linear("q_gate_proj", self.n_heads * width)(Concat("q_latents")(source, compressed))
        q, gate = Split("q_gate_split", (self._d_query, self.v_head_dim))(
            SplitHeads("q_gate_heads", self.n_heads)(both)
        )
        return q, source, gate

    def _normed(self, latent: Tensor, name: str, multiplier: float) -> Tensor:
        """A latent, normalized and scaled."""
        normed: Tensor = self.latent_norm(latent, name=f"{name}_norm", group=LATENT)
        return normed if multiplier == 1.0 else Scale(f"{name}_multiplier", multiplier)(normed)

    def _naive(
        self,
        context: Context,
        queries: tuple[Tensor, ...],
        latent: Tensor,
        k_pe: list[Tensor],
        chosen: Tensor | None,
    ) -> Tensor:
        """Rebuild H keys and values per visible token, then attend as MHA does."""
        rebuilt = SplitHeads("kv_b_heads", self.n_heads)(self._kv_b(latent))
        k_nope, v = Split("kv_b_split", (self.qk_nope_head_dim, self.v_head_dim))(rebuilt)
        q, k = joined(Concat("q"), *queries), joined(Concat("k"), k_nope, *k_pe)
        return self.attend(context, self._d_query, q, k, v, selected=chosen)

    def _absorbed(
        self,
        context: Context,
        queries: tuple[Tensor, ...],
        latent: Tensor,
        k_pe: list[Tensor],
        chosen: Tensor | None,
    ) -> Tensor:
        """Carry the queries into the latent space, attend there as MQA does, carry the result out."""
        # Wkvb [H (n + v), c] as [H, n + v, c], which both products share
        weight = SplitHeads("kv_b_heads", self.n_heads, axis=0)(latent.tape.weight(self._kv_b, latent))
        w_k, w_v = Split("kv_b_split", (self.qk_nope_head_dim, self.v_head_dim), axis=1)(weight)
        q_nope, *q_pe = queries
        q_latent = Einsum("q_absorb", "bthn,hnc->bthc")(q_nope, w_k)
        head = Unsqueeze("latent_head")(latent)
        q, k = joined(Concat("q"), q_latent, *q_pe), joined(Concat("k", in_cache=True), head, *k_pe)
        # the scale stays (n + r)^-0.5 though queries are c + r wide: the scores are those of naive
        mixed = self.attend(context, self._d_query, q, k, head, selected=chosen)
        out: Tensor = Einsum("v_absorb", "bthc,hvc->bthv")(mixed, w_v)
        return out

    @property
    def _kv_b(self) -> Linear:
        return Linear("kv_b_proj", self.n_heads * (self.qk_nope_head_dim + self.v_head_dim))

    @property
    def _d_query(self) -> Number:
        return self.qk_nope_head_dim + self._turned

    @property
    def _turned(self) -> Number:
        """r, 0 without rotary dims."""
        return 0 if self.qk_rope_head_dim is None else self.qk_rope_head_dim

    def check_width(self, d_model: int) -> Iterator[Conflict]:
        """Conflicts of the position with the r rotary dims, where `check` has not called r odd."""
        yield from super().check_width(d_model)
        if self.qk_rope_head_dim is not None and self.qk_rope_head_dim % 2 == 0:
            yield from self.position.check_width(self.qk_rope_head_dim)

    def check(self) -> Iterator[Conflict]:
        """Conflicts: an odd number r of rotary dims, or none beside what turns or normalizes them."""
        yield from super().check()
        if self.qk_rope_head_dim is None:
            of_dims = {"position": self.position.acts_on == "heads", "k_pe_norm": self.k_pe_norm is not None}
            for name in (field for field, present in of_dims.items() if present):
                what = f"{name} is of rotary dims, and there is no qk_rope_head_dim"
                yield Conflict("no-rotary-dims", name, what, "state qk_rope_head_dim, or leave it out")
        elif self.qk_rope_head_dim % 2:
            yield Conflict(
                "rotary-dims-even",
                "qk_rope_head_dim",
                f"qk_rope_head_dim must be even, not {self.qk_rope_head_dim}",
                "RoPE rotates dimensions in pairs",
            )
        if self.q_lora_rank is None and self.q_multiplier != 1.0:
            yield Conflict(
                "no-query-latent",
                "q_multiplier",
                "q_multiplier scales the latent of the queries, and there is no q_lora_rank",
                "leave one of them out, or state q_lora_rank",
            )
        if self.q_lora_rank is None and self.query_gate:
            what = "query_gate is made of the latent of the queries, and there is no q_lora_rank"
            yield Conflict("no-latent-to-gate", "query_gate", what, "leave it out, or state q_lora_rank")
        if self.position.acts_on == "keys":
            yield Conflict(
                "no-relative-keys",
                "position",
                "relative keys are not defined for latent attention",
                "use kind rope",
            )


def joined(concat: Concat, *parts: Tensor) -> Tensor:
    """The parts side by side; one alone as it is."""
    first, *others = parts
    whole: Tensor = concat(*parts) if others else first
    return whole
