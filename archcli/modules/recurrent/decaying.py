"""Linear attention with a decay per head: lightning attention and retention.

B batch, T new tokens, D d_model, H heads, d head_dim, N key_head_dim, P value_head_dim.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar, Literal

from archcli.arith import Number
from archcli.graph import Tensor
from archcli.modules.attention.mixer import MixerFacts, RecurrenceFacts
from archcli.modules.networks.activation import Activation, Sigmoid, SiLU
from archcli.modules.positions.position import Position, Rope
from archcli.modules.recurrent.base import Recurrent
from archcli.modules.recurrent.gated_norm import GatedNorm, GatedRMSNorm, check_of_heads, of_heads
from archcli.modules.spec.base import Conflict, Positive, Size
from archcli.modules.spec.context import Context, Kept, or_default
from archcli.ops import Activate, HeadDecay, Linear, MergeHeads, Scale, SplitHeads, StateScan


class LightningAttention(Recurrent):
    """Linear attention of silu(q), silu(k), silu(v). arXiv:2401.04658, MiniMax-01 arXiv:2501.08313.

        q, k, v = silu(W u)                         [H, d] each
        S_t = a S_(t-1) + k_t v_t^T                 [d, d] per head
        out = W_o (norm(S_t^T q_t) sigmoid(W_g u))

    log a of head h from 1 is -2^(-8 h / H) (1 - l / (L - 1)) in layer l of L from 0: the first layers forget
    fastest, the last nothing. `activation` is that of queries, keys and values; `norm` is over all heads
    together. The state is H d^2 elements whatever the context.
    """

    title: ClassVar[str] = "Lightning attention"
    short_title: ClassVar[str] = "lightning"
    kind: Literal["lightning"] = "lightning"
    n_heads: Size
    head_dim: Size
    chunk: Size = 256
    bias: bool = False
    activation: Activation = SiLU()
    norm: GatedNorm = GatedRMSNorm(eps=1e-6, gate="after", activation=Sigmoid())

    def recurrence(self, d_model: Number | None = None) -> RecurrenceFacts:
        """H states of d times d."""
        return RecurrenceFacts(self.n_heads, self.head_dim, self.head_dim, self.n_heads, self.chunk)

    def forward(self, x: Tensor, context: Context | None = None) -> tuple[Tensor, Kept]:
        """[B, T, D] to [B, T, D]; the cache holds the state [B, H, d, d]."""
        context = or_default(x, context)
        q, k, v = (self._heads(x, which) for which in "qkv")
        # slopes go by the layer's number: layers are alike in cost, not in values
        decay = HeadDecay("decay", "slopes", context.layer, context.n_layers)(v)
        scan = StateScan("scan", self.chunk, self.form, context.cache is not None)
        y, *state = scan(q, k, v, decay, *(context.cache or ()))
        gate = Linear("g_proj", self.n_heads * self.head_dim, self.bias)(x)
        mixed = self.norm(MergeHeads("merge")(y), gate, name="norm")
        out = Linear("o_proj", x.shape[-1], self.bias)(mixed)
        return out, None if context.cache is None else tuple(state)

    def _heads(self, x: Tensor, which: str) -> Tensor:
        """Queries, keys or values [B, T, H, d]."""
        projected = Linear(f"{which}_proj", self.n_heads * self.head_dim, self.bias)(x)
        heads: Tensor = SplitHeads(f"{which}_heads", self.n_heads)(
            self.activation(projected, name=f"{which}_activation")
        )
        return heads

    def check(self) -> Iterator[Conflict]:
        """Conflict: groups of the norm that do not divide its channels."""
        yield from super().check()
        yield from self.norm.check_channels(self.n_heads * self.head_dim, "n_heads x head_dim")


class Retention(Recurrent):
    """Multi-scale retention. Sun et al. 2023, RetNet, arXiv:2307.08621 section 2.2.

        q, k = rope(W u), v = W u                   [H, N], [H, N], [H, P]
        S_t = a S_(t-1) + k_t v_t^T / sqrt(N)       [N, P] per head
        out = W_o (norm(S_t^T q_t) silu(W_g u))     the norm is of each head

    `decay` fixed: a = 1 - 2^(-5 - h) for head h from 0, in all layers. token: log a = log(sigmoid(W_a u + b))
    / `temperature`, a number per token and head (gated retention, arXiv:2405.05254; simple GLA, which is GLA
    of arXiv:2312.06635 with such decays). The state is H N P elements whatever the context.
    """

    title: ClassVar[str] = "Retention"
    short_title: ClassVar[str] = "retention"
    kind: Literal["retention"] = "retention"
    n_heads: Size
    key_head_dim: Size
    value_head_dim: Size
    chunk: Size = 64
    decay: Literal["fixed", "token"] = "fixed"
    temperature: Positive = 16.0
    bias: bool = False
    position: Position = Rope()
    norm: GatedNorm = GatedRMSNorm(eps=1e-6, gate="after", weight=False)

    def facts(self, d_model: Number | None = None) -> MixerFacts:
        """As of a recurrence, and the position of its keys."""
        return replace(super().facts(d_model), position=self.position, rotary_dim=self.key_head_dim)

    def recurrence(self, d_model: Number | None = None) -> RecurrenceFacts:
        """H states of N times P."""
        return RecurrenceFacts(self.n_heads, self.key_head_dim, self.value_head_dim, self.n_heads, self.chunk)

    def table(
        self, positions: Tensor, d_model: Number, name: str, like: Tensor | None = None
    ) -> tuple[Tensor, Tensor] | None:
        """The rotary table of keys of width N."""
        return self.position.table(positions, self.key_head_dim, name, like)

    def forward(self, x: Tensor, context: Context | None = None) -> tuple[Tensor, Kept]:
        """[B, T, D] to [B, T, D]; the cache holds the state [B, H, N, P]."""
        context = or_default(x, context)
        table = context.rotary or self.table(context.positions, x.shape[-1], "rotary", x)
        q, k = (
            self.position.rotate(self._heads(x, which, self.key_head_dim), table, f"{which}_rotate")
            for which in "qk"
        )
        k = Scale("k_scale", self.key_head_dim**-0.5)(k)
        v = self._heads(x, "v", self.value_head_dim)
        scan = StateScan("scan", self.chunk, self.form, context.cache is not None)
        # a decay per head, never per channel: the whole state of a head decays alike
        y, *state = scan(q, k, v, self._decay(x, v), *(context.cache or ()))
        gate = Linear("g_proj", self.n_heads * self.value_head_dim, self.bias)(x)
        mixed = of_heads(self.norm, self.n_heads)(MergeHeads("merge")(y), gate, name="norm")
        out = Linear("o_proj", x.shape[-1], self.bias)(mixed)
        return out, None if context.cache is None else tuple(state)

    def _heads(self, x: Tensor, which: str, width: Number) -> Tensor:
        projected = Linear(f"{which}_proj", self.n_heads * width, self.bias)(x)
        heads: Tensor = SplitHeads(f"{which}_heads", self.n_heads)(projected)
        return heads

    def _decay(self, x: Tensor, v: Tensor) -> Tensor:
        """log a [B, T, H]."""
        if self.decay == "fixed":
            fixed: Tensor = HeadDecay("decay", "retention")(v)
            return fixed
        gates = Activate("decay", "log_sigmoid")(Linear("a_proj", self.n_heads, bias=True)(x))
        scaled: Tensor = Scale("decay_scale", 1 / self.temperature)(gates)
        return scaled

    def check(self) -> Iterator[Conflict]:
        """Conflicts: a norm with groups, a bias on scores, a width that RoPE cannot turn."""
        yield from super().check()
        yield from check_of_heads(self.norm)
        if self.position.acts_on in {"keys", "scores"}:
            what = "a bias on scores, of which retention has none"
            yield Conflict("retention-score-bias", "position", what, "use rope, or none")
        yield from self.position.check_width(self.key_head_dim)
