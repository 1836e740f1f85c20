"""Attention whose keys and values are projected from the tokens.

MHA, MQA and GQA are one forward with H, 1 or K kv heads.

    query heads   0 1 2 3 4 5 6 7      0 1 2 3 4 5 6 7      0 1 2 3 4 5 6 7
    kv heads      0 1 2 3 4 5 6 7      0       1            0
                  MHA                  GQA (K = 2)          MQA

B batch, T new tokens, S visible tokens, D d_model, H query heads, K kv heads, d head_dim of queries and keys,
e of values.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Literal

from archcli.arith import Number, first_value
from archcli.graph import Tensor
from archcli.modules.attention.base import Attention, IndexedAttention
from archcli.modules.attention.mixer import MixerFacts
from archcli.modules.networks.ffn import blocks_conflicts, matrix
from archcli.modules.networks.norm import Norm, QKNorm
from archcli.modules.spec.base import Conflict, Count, Positive, Size
from archcli.modules.spec.context import Context, borrowed, lent, or_default
from archcli.ops import Clip, Linear, Mask, Scale, SplitHeads, TopK

if TYPE_CHECKING:  # a field of few, imported where it is given a value
    from archcli.modules.attention.gates import ValueGate
    from archcli.ops import BlockDiagonal

Projection = Literal["q", "k", "v", "o"]
QKVO: tuple[Projection, ...] = ("q", "k", "v", "o")


class ProjectedHeads(Attention):
    """Attention whose queries, keys, values and result are linear projections.

    `head_dim` left out is d_model / n_heads; `v_head_dim` left out is head_dim. `bias` true biases all four
    projections, a list those it names (Qwen2: [q, k, v]). `qk_norm` normalizes queries and keys; `clip`
    bounds q, k and v after projection (OLMo, MPT), with `clips_normed` q and k after their norm (OLMoE).
    """

    head_dim: Size | None = None
    v_head_dim: Size | None = None
    bias: bool | tuple[Projection, ...] = False
    qk_norm: QKNorm | None = None
    clip: Positive | None = None
    clips_normed: bool = False

    @property
    def kv_heads(self) -> Number:
        """K, the heads of keys and values."""
        raise NotImplementedError

    def width(self, d_model: Number) -> Number:
        """d, the width of a query head."""
        return d_model // self.n_heads if self.head_dim is None else self.head_dim

    def facts(self, d_model: Number | None = None) -> MixerFacts:
        """Heads and their widths."""
        known = self.head_dim is not None or d_model is not None
        d = self.width(d_model) if known else None
        return replace(
            super().facts(d_model),
            n_kv_heads=self.kv_heads,
            head_dim=d,
            v_head_dim=d if self.v_head_dim is None else self.v_head_dim,
            content_dim=d,
            rotary_dim=d,
        )

    def table(
        self, positions: Tensor, d_model: Number, name: str, like: Tensor | None = None
    ) -> tuple[Tensor, Tensor] | None:
        """The rotary table of heads of width d."""
        return self.position.table(positions, self.width(d_model), name, like)

    def _heads(self, x: Tensor, which: Projection, heads: Number, width: Number) -> Tensor:
        split: Tensor = SplitHeads(f"{which}_heads", heads)(self._projected(x, which, heads * width))
        return split

    def _projected(self, x: Tensor, which: Projection, width: Number) -> Tensor:
        """Queries, keys or values [B, T, `width`] of all heads together."""
        projected: Tensor = self._matrix(which, width)(x)
        # values have no norm: they are clipped here in either order
        return projected if self.clips_normed and which != "v" else self._clipped(projected, which)

    def _matrix(self, which: Projection, width: Number) -> Linear | BlockDiagonal:
        """The projection of that name, to a width."""
        return Linear(f"{which}_proj", width, self._biased(which))

    def _clipped(self, x: Tensor, which: Projection) -> Tensor:
        return x if self.clip is None else Clip(f"{which}_clip", self.clip)(x)

    def _placed(self, x: Tensor, which: Projection, table: tuple[Tensor, Tensor] | None) -> Tensor:
        """Queries or keys after normalization and rotation, in the architecture's order."""
        norm = self.qk_norm
        if norm is not None and norm.when == "before_rope":
            x = norm(x, name=f"{which}_norm")
        # OLMoE clips what its norms return, OLMo and MPT what is projected
        if self.clips_normed:
            x = self._clipped(x, which)
        x = self.position.rotate(x, table, f"{which}_rotate")
        return norm(x, name=f"{which}_norm") if norm is not None and norm.when == "after_rope" else x

    def check(self) -> Iterator[Conflict]:
        """Conflict: a clip after norms, without one of the two or with norms after RoPE."""
        yield from super().check()
        early = self.qk_norm is not None and self.qk_norm.when == "before_rope"
        if self.clips_normed and (self.clip is None or not early):
            what = "clips_normed needs clip and a qk_norm before RoPE"
            yield Conflict("clips-normed", "clips_normed", what, "state both, or leave it out")

    def check_width(self, d_model: int) -> Iterator[Conflict]:
        """Conflicts with width D: n_heads must divide it unless head_dim is given; RoPE needs even widths."""
        if self.head_dim is None and d_model % self.n_heads:
            yield uneven_heads(self.n_heads, d_model)
        else:
            key = "n_heads" if self.head_dim is None else "head_dim"
            for conflict in self.position.check_width(self.width(d_model)):
                # a width that the position cannot take is the fault of the field that gives it
                yield conflict._replace(path=key) if conflict.path == "position" else conflict

    def _biased(self, which: Projection) -> bool:
        return self.bias if isinstance(self.bias, bool) else which in self.bias


class ProjectedAttention(IndexedAttention, ProjectedHeads):
    """o(softmax(scale q k^T) v) with q = Wq x [H d], k = Wk x [K d], v = Wv x [K e], o = Wo.

    Vaswani et al. 2017, arXiv:1706.03762.

    `value_multiplier` scales the values (MiMo-V2-Flash 0.707); 1 leaves them. `global_projections` states a
    second set of projections of queries, keys and values, for global tokens, of which a pass has none
    (Longformer, arXiv:2004.05150 section 3.1). `v_norm` normalizes each head's values; with `values` keys
    they are the projected keys, before norm and rotation, and Wv is not there (Gemma 4). `kv_from` n has
    neither Wk nor Wv nor a cache: keys and values are those of layer n, counted from 0, an earlier one of the
    same kind (cross-layer attention, arXiv:2405.12981; Gemma 3n). `value_gate` chooses keys by a gate on
    their values (Doge).
    """

    narrows: ClassVar[bool] = True
    value_multiplier: Positive = 1.0
    global_projections: bool = False
    v_norm: Norm | None = None
    values: Literal["projected", "keys"] = "projected"
    kv_from: Count | None = None
    value_gate: ValueGate | None = None

    def own_mask(self) -> Mask:
        """Which keys a query sees; with a gate, the `top_k` that it chooses."""
        return super().own_mask() if self.value_gate is None else TopK(self.value_gate.top_k)

    @property
    def _pattern(self) -> str:
        return super()._pattern if self.value_gate is None else f"top_k {self.value_gate.top_k}"

    def forward(self, x: Tensor, context: Context | None = None) -> tuple[Tensor, tuple[Tensor, ...] | None]:
        """[B, T, D] to [B, T, D]; the cache holds k [B, n, K, d] and v [B, n, K, e]."""
        context = or_default(x, context)
        d = self.width(x.shape[-1])
        if self.global_projections:
            self._declare_global(x, d)
        # a stack hands its table on; a layer that runs alone makes its own
        table = context.rotary or self.table(context.positions, x.shape[-1], "rotary", x)
        scored = self.scored(x)
        q = self._placed(self._heads(scored, "q", self.n_heads, d), "q", table)
        if self.kv_from is None:
            (k, v), kept = self.extend(context, **self._entries(x, d, table, scored))
        else:
            (k, v), kept = borrowed(context)
        # the index's keys lie in the cache behind the attention's own entries
        chosen, index_keys = self.select(x, x, context, table, held=len(kept or ()))
        gate = self.value_gate
        gates = None if gate is None else gate(v, context, self.n_heads, name="value_gate")
        mixed = self.merge(x, self.attend(context, d, q, k, v, selected=chosen, bias=gates))
        # narrower than x in a concat block alone (Zamba)
        out = self._matrix("o", context.width_of(x))(mixed)
        return out, lent(context, None if kept is None else (*kept, *index_keys), (k, v), chosen)

    def scored(self, x: Tensor) -> Tensor:
        """What queries and keys are projected from: the tokens x [B, T, D] themselves."""
        return x

    def _entries(
        self, x: Tensor, d: Number, table: tuple[Tensor, Tensor] | None, scored: Tensor | None = None
    ) -> dict[str, Tensor]:
        """Keys and values of tokens x; `scored` in place of x for the keys."""
        heads = self._heads(x if scored is None else scored, "k", self.kv_heads, d)
        k = self._placed(heads, "k", table)
        v = heads if self.values == "keys" else self._values(x, d)
        return {"k": k, "v": v if self.v_norm is None else self.v_norm(v, name="v_norm", group="qk_norm")}

    def _declare_global(self, x: Tensor, d: Number) -> None:
        """The weights of projections that a pass without global tokens does not run."""
        tape = x.tape.declaring()
        if tape is None:
            return
        sides: tuple[tuple[Projection, Number], ...] = (
            ("q", self.n_heads),
            ("k", self.kv_heads),
            ("v", self.kv_heads),
        )
        for which, heads in sides:
            Linear(f"{which}_global_proj", heads * d, self._biased(which))(Tensor(tape, x.value))

    def _values(self, x: Tensor, d: Number) -> Tensor:
        """Values [B, T, K, e] of tokens x, multiplied."""
        v = self._heads(x, "v", self.kv_heads, d if self.v_head_dim is None else self.v_head_dim)
        return v if self.value_multiplier == 1.0 else Scale("v_multiplier", self.value_multiplier)(v)

    def check(self) -> Iterator[Conflict]:
        """Conflict: values that are the keys, with a width or a factor of their own."""
        yield from super().check()
        if self.values == "keys" and (self.v_head_dim is not None or self.value_multiplier != 1.0):
            what = "values that are the keys have no v_head_dim and no value_multiplier"
            yield Conflict("values-are-keys", "values", what, "leave them out, or write values: projected")
        if self.value_gate is not None:
            yield from self._gate_alone()

    def _gate_alone(self) -> Iterator[Conflict]:
        """Conflict of a gate with other patterns of keys, and with biases of their scores."""
        fields = (
            name for name in ("window", "chunk", "sparsity", "index") if getattr(self, name) is not None
        )
        others = [*fields, *(() if self.causal else ("causal: false",))]
        others += ["the position"] * (self.position.shares_bias or self.position.acts_on == "keys")
        others += ["normalizer: relu"] * (self.normalizer == "relu")
        if others:
            what = f"value_gate alone chooses keys and adds to their scores, not {others[0]} as well"
            yield Conflict("gate-alone", "value_gate", what, "leave one of them out")


class MultiHeadAttention(ProjectedAttention):
    """Every query head has its own keys and values.

    Vaswani et al. 2017, arXiv:1706.03762. Caches 2 H d elements per token. `blocks` states how many blocks on
    their diagonals Wq, Wk, Wv and Wo have, where they are not whole matrices (SqueezeBERT, arXiv:2006.11316).
    """

    title: ClassVar[str] = "Multi-head attention"
    short_title: ClassVar[str] = "MHA attention"
    kind: Literal["mha"] = "mha"
    blocks: tuple[Size, ...] = ()

    @property
    def kv_heads(self) -> Number:
        """H."""
        return self.n_heads

    def _matrix(self, which: Projection, width: Number) -> Linear | BlockDiagonal:
        blocks = self.blocks[QKVO.index(which)] if self.blocks else 1
        return matrix(f"{which}_proj", width, blocks, bias=self._biased(which))

    def check_width(self, d_model: int) -> Iterator[Conflict]:
        """Conflicts with width D: blocks that do not divide what the matrices read and write."""
        yield from super().check_width(d_model)
        heads = self.n_heads * self.width(d_model)
        yield from blocks_conflicts(self.blocks, QKVO, d_model, heads)


class MultiQueryAttention(ProjectedAttention):
    """All query heads share one head of keys and values.

    Shazeer 2019, arXiv:1911.02150. Caches 2 d elements per token.
    """

    title: ClassVar[str] = "Multi-query attention"
    short_title: ClassVar[str] = "MQA attention"
    kind: Literal["mqa"] = "mqa"

    @property
    def kv_heads(self) -> Number:
        """1."""
        return 1


class GroupedQueryAttention(ProjectedAttention):
    """Groups of H/K query heads share keys and values.

    Ainslie et al. 2023, arXiv:2305.13245. Caches 2 K d elements per token.
    """

    title: ClassVar[str] = "Grouped-query attention"
    short_title: ClassVar[str] = "GQA attention"
    kind: Literal["gqa"] = "gqa"
    n_kv_heads: Size

    @property
    def kv_heads(self) -> Number:
        """K."""
        return self.n_kv_heads

    def check(self) -> Iterator[Conflict]:
        """Conflict: K does not divide H."""
        yield from super().check()
        yield from uneven_groups(self.n_heads, self.n_kv_heads)


def uneven_groups(n_heads: int, n_kv_heads: int) -> Iterator[Conflict]:
    """The conflict of heads of keys and values that do not divide those of queries."""
    if n_heads % n_kv_heads:
        fits = " or ".join(str(k) for k in _divisors_near(n_heads, n_kv_heads))
        what = f"n_kv_heads {n_kv_heads} does not divide n_heads {n_heads}"
        yield Conflict("kv-heads-divide-heads", "n_kv_heads", what, f"use {fits}")


def uneven_heads(n_heads: int, d_model: int) -> Conflict:
    """The conflict of a number of heads that does not divide d_model, without a head_dim."""
    fits = " or ".join(str(k) for k in _divisors_near(d_model, n_heads))
    return Conflict(
        "heads-divide-width",
        "n_heads",
        f"n_heads {n_heads} does not divide d_model {d_model}",
        f"use {fits}, or state head_dim",
    )


def _divisors_near(n: int, wanted: int, reach: int = 4096) -> list[int]:
    """The divisors of n nearest to the wanted number, below and above, within a search limit."""
    # range() takes no number of many candidates, and the hint is words alone
    n, wanted = first_value(n), first_value(wanted)
    # bounded, as a config may state any number: a hint is worth no long search
    below = next((k for k in range(min(wanted, n), max(wanted - reach, 0), -1) if n % k == 0), 1)
    above = next((k for k in range(wanted, min(wanted + reach, n + 1)) if n % k == 0), n)
    return [below, above] if wanted < n else [n]
