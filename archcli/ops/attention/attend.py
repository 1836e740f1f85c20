"""Attend: scaled dot-product attention with GQA, masks, softcap, ALiBi, biases and sinks; its cache.

B batch, T new tokens, S visible tokens, H query heads, K kv heads, d head_dim of queries and keys, e head_dim
of values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from archcli.arith import Number, Shape, minimum, prod
from archcli.graph import Op, OpClass, Part, State, StateContent, StateKind, Traits, Workspace
from archcli.graph.kept import Call
from archcli.graph.part import READ_OFF_RUN
from archcli.ops.attention import attend_cost as cost
from archcli.ops.attention.mask import Mask, key_positions, visibility
from archcli.ops.base import as_number, contraction, heads_of, movement

SELECTED = "selected"
"""The extra that holds the keys given to each query."""
SPANS = "spans"
"""The extra that says which tokens see each other in both directions."""
BIASES = ("bias", "shared_bias")
"""The extras that are added to scores."""


@dataclass(frozen=True, slots=True, eq=False)
class Attend(Op):
    """softmax(scale q k^T [softcap] [+ ALiBi] [+ bias] + mask) v.

    Inputs q [B,T,H,d], k [B,S,K,d], v [B,S,K,e], positions [T], then the `extras` by name: sinks [H], bias
    [B,H,T,S], shared_bias [1,H,T,S], selected [B,T,k] (the keys that each query is given; blocks of
    keys, [B,T,I,k]), spans [T] of a pass without earlier tokens (those of one number from 0 on see each
    other). Output [B,T,H,e].

    Query head h reads kv head h // (H/K) (GQA, arXiv:2305.13245). Slopes of ALiBi are 2^(-alibi i/H) times
    `alibi_factor` (arXiv:2108.12409). `softcap` c maps a score s to c tanh(s/c) (arXiv:2408.00118). A sink is
    one more logit per head, whose probability is dropped (arXiv:2508.10925). `relu` takes max(score, 0) over
    the number of visible keys in place of the softmax (arXiv:2309.08586). `dropout` zeroes that share of the
    probabilities in training: one FLOP each, which Ivanov et al. class with the softmax and whose gradient is
    part of the softmax's.

    `past` tokens came before the new ones; it serves the pair count alone. Parts are exact for the mask;
    `executed` is all T x S pairs.
    """

    drawn: ClassVar[str] = "core"
    sign: ClassVar[str] = "softmax"
    slots: ClassVar[tuple[str, ...]] = ("q", "k", "v")
    component: ClassVar[str] = "attention_scores"
    name: str
    mask: Mask
    scale: float
    past: Number = 0
    softcap: float | None = None
    alibi: float | None = None
    extras: tuple[str, ...] = ()
    relu: bool = False
    alibi_factor: float = 1.0
    dropout: float = 0.0
    training: bool = False
    peers: Any = field(default=None, repr=False)

    def shape(self, q: Shape, k: Shape, v: Shape, positions: Shape, *extras: Shape) -> Shape:
        return (*q[:3], v[3])

    def parts(self, q: Shape, k: Shape, v: Shape, positions: Shape, *extras: Shape) -> tuple[Part, ...]:
        batch, new, heads, width = q
        exact = batch * self.mask.pairs_of(heads, new, self.past, k[1])
        every_pair = batch * heads * new * k[1]
        queries, keys, values = (
            batch * new * heads * width,
            batch * k[1] * k[2] * width,
            batch * k[1] * k[2] * v[3],
        )
        out = batch * new * heads * v[3]
        scores = contraction(
            "scores", 2 * exact * width, [(queries, 0), (keys, 1)], every_pair, 2 * every_pair * width
        )
        added = (4 + i for i, name in enumerate(self.extras) if name not in (SELECTED, SPANS))
        below = (0, 1, *added)  # whatever the probabilities come from
        mix = contraction(
            "mix", 2 * exact * v[3], [(every_pair, below), (values, 2)], out, 2 * every_pair * v[3]
        )
        if self.relu:
            weigh = cost.relu(exact, every_pair, below)
        elif "sinks" in self.extras:
            weigh = cost.with_sinks(
                exact, every_pair, batch * new * heads, heads, below, 4 + self.extras.index("sinks")
            )
        else:
            weigh = cost.softmax(exact, every_pair, below)
        dropped = cost.dropout(exact, every_pair, below) if self.dropout else ()
        return (scores, *self._pointwise(exact, every_pair, extras), weigh, *dropped, mix)

    def traits(self, *xs: Shape) -> Traits:
        return Traits(mask=self.mask.trait, marks=tuple(self._marks()), scale=self.scale)

    def _marks(self) -> Iterator[str]:
        """What is done to scores besides scale, mask and softmax."""
        if self.softcap:
            yield f"softcap {self.softcap:g}"
        if self.alibi:
            yield "ALiBi"
        if "sinks" in self.extras:
            yield "sinks"
        if self.relu:
            yield "ReLU, no softmax"

    def seen(self) -> tuple[tuple[bool, ...], ...]:
        return self.mask.example()

    def _pointwise(self, exact: Number, every_pair: Number, extras: tuple[Shape, ...]) -> Iterator[Part]:
        """Element-wise steps between scores and softmax. What is added passes its gradient on."""
        if self.softcap:
            yield cost.softcap(exact, every_pair)
        if self.alibi:
            yield Part("alibi", OpClass.ELEMENTWISE, exact, every_pair, every_pair, executed=every_pair)
        for i, (name, shape) in enumerate(zip(self.extras, extras, strict=True)):
            if name == "bias":
                yield cost.bias(exact, every_pair, prod(shape))
            elif name == "shared_bias":
                total = Part(
                    "d_shared_bias", OpClass.NORMALIZATION, exact, every_pair, prod(shape), wrt=4 + i
                )
                total = replace(total, executed=every_pair)
                yield replace(cost.bias(exact, every_pair, prod(shape)), backward=(total,))
            elif name == SELECTED:
                yield Part("selected", OpClass.ROUTING, 0, prod(shape), 0)

    @property
    def is_plain(self) -> bool:
        """Whether scores are scaled and masked alone: what torch's scaled_dot_product_attention expresses."""
        return not (self.softcap or self.alibi or {*self.extras} - {SELECTED} or self.relu)

    @property
    def lacks_kernel(self) -> bool:
        return not self.is_plain

    @property
    def selects(self) -> bool:
        """Whether each query is given the keys that it sees."""
        return SELECTED in self.extras

    def skips_masked(self, q: Shape, k: Shape, *rest: Shape) -> bool:
        return self.needs_no_mask(q[1], k[1])

    def needs_no_mask(self, new: int, visible: int) -> bool:
        """Whether `is_causal` alone expresses the mask, so that torch's kernel skips masked blocks."""
        # torch aligns `is_causal` at the first key: right where all tokens are new, and one token sees all
        return self.mask.covers(new, visible) and (not self.mask.causal or new in (1, visible))

    def needs_flex(self, *xs: Shape) -> bool:
        """Whether FlexAttention takes what torch's other kernels run in steps, or with a mask of all pairs.

        It has no dropout, and no weights but those of a softmax; a mask goes by places, not by chosen keys.
        """
        if self.relu or self.dropout or self.selects:
            return False
        return not (self.is_plain and self.needs_no_mask(xs[0][1], xs[1][1]))

    def in_training(self) -> Attend:
        return replace(self, training=True) if self.dropout else self

    def among(self, peers: Any) -> Attend:
        """The op on this rank's heads, of the heads of all ranks."""
        return replace(self, peers=peers) if self.alibi else self

    def space(self, call: Call, *xs: Shape) -> Workspace:
        """The memory of its backward; that of its forward is read off its run."""
        from archcli.ops.attention.attend_kernel import backward, flex_backward  # asked for memory alone

        called, fused = self._called(call, *xs), self._runs_fused(call)
        if call.execution.flex and self.needs_flex(*xs):
            return READ_OFF_RUN._replace(backward=flex_backward(called, self._scores_added(xs)))
        return READ_OFF_RUN._replace(backward=backward(called, fused=fused), lets_go=not fused)

    def _runs_fused(self, call: Call) -> bool:
        """Whether one kernel runs: a CPU's has no dropout."""
        if call.execution.served and call.execution.fused:
            return True
        dropout = self.dropout and call.execution.records and not call.on_cuda
        return call.execution.fused and self.is_plain and not dropout

    def _called(self, call: Call, q: Shape, k: Shape, v: Shape, *rest: Shape) -> Any:
        """The call's sizes and steps."""
        from archcli.ops.attention.attend_kernel import AttendCall  # asked for memory alone

        return AttendCall(
            call,
            q,
            k,
            v,
            masked=not self.needs_no_mask(q[1], k[1]),
            sinks=4 + self.extras.index("sinks") if "sinks" in self.extras else None,
            relu=self.relu,
            dropout=bool(self.dropout and call.execution.records),
        )

    def run(
        self, torch: Any, weights: dict[str, Any], q: Any, k: Any, v: Any, positions: Any, *extras: Any
    ) -> Any:
        """Eager attention: scores, softmax and mix as three steps, over all T x S pairs."""
        extra_of = dict(zip(self.extras, extras, strict=True))
        batch, new, heads, width = q.shape
        kv_heads = k.shape[2]
        sharing = (batch, kv_heads, heads // kv_heads * new, width)  # queries of the heads that share keys
        products = q.transpose(1, 2).reshape(sharing) @ k.permute(0, 2, 3, 1)
        scores = products.view(batch, heads, new, -1) * self.scale
        del products  # so that memory holds the scores once
        if self.softcap:
            scores = self.softcap * torch.tanh(scores / self.softcap)
        if self.alibi:
            scores = scores - self._alibi(torch, positions, scores)
        for bias in (extra_of[name] for name in BIASES if name in extra_of):
            scores = scores + bias
        allowed = visibility(torch, self.mask, positions, k.shape[1], extra_of.get(SELECTED))
        allowed = allowed if SPANS not in extra_of else allowed | _ahead(torch, extra_of[SPANS])
        # not -inf, of which a row that sees nothing would become NaN
        scores = scores.masked_fill(~allowed, torch.finfo(scores.dtype).min)
        if self.relu:
            probabilities = torch.relu(scores) / allowed.sum(-1, keepdim=True)
        else:
            probabilities = _probabilities(torch, scores, extra_of.get("sinks")).to(q.dtype)
        probabilities = torch.nn.functional.dropout(probabilities, self.dropout, self.training)
        mixed = probabilities.view(batch, kv_heads, -1, k.shape[1]) @ v.transpose(1, 2)
        return mixed.view(batch, heads, new, -1).transpose(1, 2)

    def run_fused(
        self, torch: Any, weights: dict[str, Any], q: Any, k: Any, v: Any, positions: Any, *extras: Any
    ) -> Any:
        """torch's fused kernel where it can express this attention, else the eager form."""
        dropout = self.dropout if self.training else 0.0
        if not self.is_plain or (dropout and q.device.type == "cpu"):
            return self.run(torch, weights, q, k, v, positions, *extras)
        new, visible, mask = q.shape[1], k.shape[1], None
        if not self.needs_no_mask(new, visible):
            mask = visibility(torch, self.mask, positions, visible, *extras)
        causal = mask is None and new > 1 and self.mask.causal
        from archcli.ops.attention.attend_kernel import attend  # torch's kernels alone need it

        return attend(torch, q, k, v, attn_mask=mask, dropout_p=dropout, is_causal=causal, scale=self.scale)

    def run_flex(
        self, torch: Any, weights: dict[str, Any], q: Any, k: Any, v: Any, positions: Any, *extras: Any
    ) -> Any:
        """FlexAttention where torch's other kernels cannot express this attention (arXiv:2412.05496).

        Sinks are applied to its result, as torchtitan and transformers do: they share the log-sum-exp.
        """
        shapes = [x.shape for x in (q, k, v, positions, *extras)]
        if not self.needs_flex(*shapes):
            return self.run_fused(torch, weights, q, k, v, positions, *extras)
        mask, biases = f"{self.mask.trait}", self._scores_added((q, k, v, positions, *extras))
        out, sums = torch.flex_attention(q, k, v, self._products(*shapes), mask, *biases)
        if "sinks" not in self.extras:
            return out
        kept = torch.sigmoid(sums - extras[self.extras.index("sinks")])
        return out * kept.unsqueeze(-1).to(out.dtype)

    def _scores_added(self, xs: Sequence[Any]) -> list[Any]:
        """Those of the inputs that are added to scores."""
        return [x for name, x in zip(self.extras, xs[4:], strict=True) if name in BIASES]

    def _products(self, *shapes: Shape) -> Number:
        """FLOPs of its products, over the pairs that see each other."""
        return sum(part.flops for part in self.parts(*shapes) if part.op_class is OpClass.CONTRACTION)

    def run_served(
        self, torch: Any, weights: dict[str, Any], q: Any, k: Any, v: Any, positions: Any, *extras: Any
    ) -> Any:
        """One kernel of an engine, of any kind: it skips what the mask hides, and expands no keys.

        FlashAttention of vLLM, FlashInfer and FlashMLA take sinks, softcaps, biases and windows.
        """
        new, visible = q.shape[1], k.shape[1]
        flops = self._products(*[x.shape for x in (q, k, v, positions, *extras)])
        # keys that no query sees, such as those before all windows, are not read
        seen = minimum(visible, self.mask.pairs(new, self.past, visible))
        length = (seen if self.selects else self.past + new) if self.mask.causal else 0
        # no engine's kernel has been measured on keys of blocks
        length = 0 if self.mask.compressed else length
        return torch.served_attention(q, k, v, flops, seen, length, self.mask.span)

    def _alibi(self, torch: Any, positions: Any, scores: Any) -> Any:
        """The penalty of each head for the distance of each key, [H, T, S]."""
        keys = key_positions(torch, positions, scores.shape[-1])
        distance = (keys - positions[:, None]).abs().to(scores.dtype)
        return self._slopes(torch, scores.shape[1], scores)[:, None, None] * distance

    def _slopes(self, torch: Any, heads: int, like: Any) -> Any:
        """One ALiBi slope per head (Press et al.).

        Where H is no power of two, the remaining heads take every second slope of the next power.
        """
        rank_heads = as_number(heads)
        first, heads = heads_of(rank_heads, self.peers)
        power = 1 << (heads - 1).bit_length()
        exponents = torch.arange(1, power + 1, device=like.device, dtype=torch.float32) * (
            -(self.alibi or 0) / power
        )
        slopes = torch.exp2(exponents) * self.alibi_factor
        if power != heads:
            slopes = torch.cat([slopes[1::2], slopes[0::2]])
        return slopes[first : first + rank_heads].to(like.dtype)


def _ahead(torch: Any, spans: Any) -> Any:
    """Whether a query sees a later key [T, T], as both are of one span."""
    place = torch.arange(len(spans), device=spans.device)
    later = place[None, :] > place[:, None]
    return later & (spans[None, :] == spans[:, None]) & (spans >= 0)[:, None]


def _probabilities(torch: Any, scores: Any, sinks: Any) -> Any:
    if sinks is None:
        return torch.softmax(scores, dim=-1, dtype=torch.float32)
    batch, heads, new, _ = scores.shape
    extra = sinks.to(scores.dtype).view(1, heads, 1, 1).expand(batch, heads, new, 1)
    return torch.softmax(torch.cat([scores, extra], dim=-1), dim=-1, dtype=torch.float32)[..., :-1]


@dataclass(frozen=True, slots=True, eq=False)
class ExtendCache(Op):
    """Put new entries [B, T, K, d] behind cached ones [B, P, K, d].

    Inputs: the new entries, then, unless the cache is empty, the cached ones. Outputs: what attention may see
    now, [B, keep(P)+T, K, d], and what is kept for the next step, [B, min(P+T, window), K, d]: a view where
    that is all, else a copy, so that the cache does not hold on to entries that nothing sees. The caller owns
    both caches.

    `cross` marks entries of an encoder's output, which are reported apart; `content` says what the entries
    are.
    """

    drawn: ClassVar[str] = "view"
    name: str
    mask: Mask
    cross: bool = False
    content: StateContent = StateContent.KEYS_VALUES

    def shape(self, new: Shape, past: Shape | None = None) -> tuple[Shape, Shape]:
        before = 0 if past is None else past[1]
        visible = self.mask.keep(before) + new[1]
        kept = self.mask.keep(before + new[1] - 1) + 1
        return (new[0], visible, *new[2:]), (new[0], kept, *new[2:])

    def parts(self, new: Shape, past: Shape | None = None) -> tuple[Part, ...]:
        return (movement("append", prod(new), prod(new)),)

    def states(self, new: Shape, past: Shape | None = None) -> tuple[State, ...]:
        kept = self.shape(new, past)[1]
        return (State(prod(kept), self._kind, kept[1], self.content),)

    @property
    def _kind(self) -> StateKind:
        if self.cross:
            return StateKind.SOURCE
        return StateKind.WINDOW if self.mask.bounded else StateKind.TOKENS

    def run(self, torch: Any, weights: dict[str, Any], new: Any, past: Any = None) -> Any:
        visible = new
        if past is not None:
            seen = self.mask.keep(past.shape[1])
            visible = torch.cat([past[:, past.shape[1] - seen :], new], dim=1)
        _, (_, kept, *_) = self.shape(*(tuple(x.shape) for x in (new, past) if x is not None))
        entries = visible.shape[1]
        return visible, visible if kept == entries else visible[:, entries - kept :].clone()
