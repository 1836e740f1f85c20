"""Gated delta nets: a state that corrects what it holds under a key, and decays.

B batch, T new tokens, D d_model, K heads of queries and keys, H heads of values, d width of a key, e of a
value.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from archcli.arith import Number
from archcli.graph import Tensor
from archcli.modules.attention.mixer import RecurrenceFacts
from archcli.modules.networks.activation import Activation, Sigmoid, SiLU
from archcli.modules.recurrent.base import Recurrent
from archcli.modules.recurrent.gated_norm import GatedNorm, GatedRMSNorm
from archcli.modules.spec.base import Conflict, Size
from archcli.modules.spec.context import Context, Kept, or_default
from archcli.modules.spec.values import Interval
from archcli.ops import (
    CausalConv1d,
    DeltaScan,
    L2Normalize,
    Linear,
    LogDecay,
    MergeHeads,
    Scale,
    SplitHeads,
)

Heads = tuple[tuple[str, Number, Number], ...]


class DeltaRule(Recurrent):
    """Base of mixers that learn by the delta rule; a kind says how wide heads are, and what gates them.

    `activation` follows the convolutions, over `conv_kernel` tokens. `chunk` tokens are computed at once, 64
    as in flash-linear-attention where a config has no word for it.
    """

    conv_kernel: Size = 4
    chunk: Size = 64
    activation: Activation = SiLU()
    norm: GatedNorm = GatedRMSNorm(gate="after")

    @property
    def heads(self) -> Heads:
        """(name, number of heads, width) of queries, keys and values."""
        raise NotImplementedError

    def decay_input(self, x: Tensor) -> Tensor:
        """The input of the decay: [B, T, H], or [B, T, H, d] for one per channel."""
        raise NotImplementedError

    def decay(self, x: Tensor) -> Tensor:
        """log a, of the shape of `decay_input`."""
        decay: Tensor = LogDecay("decay")(self.decay_input(x))
        return decay

    def gate(self, x: Tensor) -> Tensor:
        """The output gate before its activation, [B, T, H e]."""
        raise NotImplementedError

    def learning_rate(self, x: Tensor) -> Tensor:
        """How much of a value replaces what the state holds under its key, [B, T, H]."""
        n_heads = self.heads[-1][1]
        rate: Tensor = Sigmoid()(Linear("b_proj", n_heads)(x), name="beta")
        return rate

    def recurrence(self, d_model: Number | None = None) -> RecurrenceFacts:
        """H states of d times e."""
        (_, n_keys, d), _, (_, n_values, e) = self.heads
        return RecurrenceFacts(n_values, d, e, n_keys, self.chunk, self.conv_kernel)

    def forward(self, x: Tensor, context: Context | None = None) -> tuple[Tensor, Kept]:
        """[B, T, D] to [B, T, D].

        The cache holds the last inputs of the three convolutions, [B, kernel, K d] twice and [B, kernel,
        H e], and the state [B, H, d, e].
        """
        cache = or_default(x, context).cache
        pairs = [self._convolved(x, i, cache) for i in range(len(self.heads))]
        (q, k, v), windows = zip(*pairs, strict=True)
        # scaled behind the norm, which would undo a factor before it
        q = Scale("q_scale", self.heads[0][2] ** -0.5)(L2Normalize("q_norm")(q))
        k = L2Normalize("k_norm")(k)
        decay, beta = self.decay(x), self.learning_rate(x)
        scan = DeltaScan("scan", self.chunk, self.form, cache is not None)
        # the cache holds the windows of the three convolutions, then the state
        y, *state = scan(q, k, v, decay, beta, *(cache or ())[len(windows) :])
        gate = SplitHeads("g_heads", self.heads[-1][1])(self.gate(x))
        normed = self.norm(y, gate, name="norm")
        out = Linear("o_proj", x.shape[-1])(MergeHeads("merge")(normed))
        return out, None if cache is None else (*sum(windows, ()), *state)

    def _convolved(self, x: Tensor, i: int, cache: Kept) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Queries, keys or values by heads, and the window that their convolution keeps."""
        name, n_heads, width = self.heads[i]
        projected = Linear(f"{name}_proj", n_heads * width)(x)
        conv = CausalConv1d(f"{name}_conv", self.conv_kernel, cache is not None, bias=False)
        mixed, *window = conv(projected, *(cache or ())[i : i + 1])
        active = self.activation(mixed, name=f"{name}_act")
        return SplitHeads(f"{name}_heads", n_heads)(active), tuple(window)

    def check(self) -> Iterator[Conflict]:
        """Conflict: a norm whose groups do not divide the width of a head."""
        yield from super().check()
        yield from self.norm.check_channels(self.heads[-1][2], "of a head of values")


class GatedDeltaNet(DeltaRule):
    """The delta rule with a decay per head. Yang et al. 2024, arXiv:2412.06464; Qwen3-Next, Olmo Hybrid.

        q, k, v = act(conv(Wq u)), act(conv(Wk u)), act(conv(Wv u))      [K d], [K d], [H e]; |q| = |k| = 1
        a_t = exp(-exp(A_log) softplus(Wa u + dt_bias)), b_t = sigmoid(Wb u)           per head of values
        S_t = (1 - b_t k_t k_t^T) a_t S_(t-1) + b_t k_t v_t^T,  y_t = S_t^T q_t / sqrt(d)          [d, e]
        out = Wo (norm(y) silu(Wg u))                                                     norm over heads

    `n_value_heads` H / `n_key_heads` K heads of values share a query and key. `neg_eigval` doubles b, so that
    the state can turn what it holds around (arXiv:2411.12537). The state is H d e elements and the last
    inputs of the convolutions, whatever the context.
    """

    title: ClassVar[str] = "Gated DeltaNet"
    short_title: ClassVar[str] = "delta net"
    kind: Literal["gated_delta_net"] = "gated_delta_net"
    n_key_heads: Size
    n_value_heads: Size
    key_head_dim: Size
    value_head_dim: Size
    neg_eigval: bool = False

    @property
    def heads(self) -> Heads:
        """K heads of queries and of keys, H of values."""
        keys = (self.n_key_heads, self.key_head_dim)
        return (("q", *keys), ("k", *keys), ("v", self.n_value_heads, self.value_head_dim))

    def decay_input(self, x: Tensor) -> Tensor:
        """Wa u, [B, T, H]."""
        projected: Tensor = Linear("a_proj", self.n_value_heads)(x)
        return projected

    def gate(self, x: Tensor) -> Tensor:
        """Wg u, [B, T, H e]."""
        projected: Tensor = Linear("g_proj", self.n_value_heads * self.value_head_dim)(x)
        return projected

    def learning_rate(self, x: Tensor) -> Tensor:
        """b, or 2 b with negative eigenvalues, [B, T, H]."""
        rate = super().learning_rate(x)
        doubled: Tensor = Scale("beta_doubled", 2.0)(rate) if self.neg_eigval else rate
        return doubled

    def check(self) -> Iterator[Conflict]:
        """Conflict: heads of keys that do not divide those of values."""
        yield from super().check()
        if self.n_value_heads % self.n_key_heads:
            yield Conflict(
                "key-heads-divide-value-heads",
                "n_key_heads",
                f"{self.n_key_heads} heads of keys do not divide {self.n_value_heads} of values",
                "each head of keys serves the same number of heads of values",
            )


class KimiDeltaAttention(DeltaRule):
    """The delta rule with a decay per channel, from gates of low rank. Kimi Linear, arXiv:2510.26692.

        q, k, v = act(conv(Wq u)), act(conv(Wk u)), act(conv(Wv u))                [H d] each; |q| = |k| = 1
        a_t = exp(-exp(A_log) softplus(Wfb Wfa u + dt_bias)), b_t = sigmoid(Wb u)  a per channel, b per head
        S_t = (1 - b_t k_t k_t^T) diag(a_t) S_(t-1) + b_t k_t v_t^T,  y_t = S_t^T q_t / sqrt(d)       [d, d]
        out = Wo (norm(y) sigmoid(Wgb Wga u))                                               norm over heads

    `gate_rank` is the width between Wfa and Wfb, and between Wga and Wgb; left out, that of a head. With
    `full_gates` one matrix Wf and one Wg stand in their place. `decay_bound` c below 0 bounds the decay: log
    a_t = c sigmoid(exp(A_log) (Wf u + dt_bias)), so that a chunk's decays stay within numbers (Ling 3).
    """

    title: ClassVar[str] = "Kimi delta attention"
    short_title: ClassVar[str] = "Kimi delta"
    kind: Literal["kda"] = "kda"
    n_heads: Size
    head_dim: Size
    gate_rank: Size | None = None
    full_gates: bool = False
    decay_bound: Annotated[float, Interval(lt=0)] | None = None
    norm: GatedNorm = GatedRMSNorm(gate="after", activation=Sigmoid())

    @property
    def heads(self) -> Heads:
        """H heads of queries, keys and values."""
        return tuple((name, self.n_heads, self.head_dim) for name in "qkv")

    @property
    def rank(self) -> Number:
        """The width between the two matrices of a gate."""
        return self.head_dim if self.gate_rank is None else self.gate_rank

    def decay_input(self, x: Tensor) -> Tensor:
        """Wfb Wfa u, [B, T, H, d]."""
        split: Tensor = SplitHeads("f_heads", self.n_heads)(self._gates(x, "f"))
        return split

    def decay(self, x: Tensor) -> Tensor:
        """log a [B, T, H, d], bounded from below by `decay_bound` if there is one."""
        if self.decay_bound is None:
            return super().decay(x)
        from archcli.ops import BoundedLogDecay  # rare: Ling 3

        bounded: Tensor = BoundedLogDecay("decay", self.decay_bound)(self.decay_input(x))
        return bounded

    def gate(self, x: Tensor) -> Tensor:
        """Wgb Wga u, [B, T, H d]."""
        return self._gates(x, "g")

    def _gates(self, x: Tensor, name: str) -> Tensor:
        """A number for each channel of each head, [B, T, H d]."""
        width = self.n_heads * self.head_dim
        if self.full_gates:
            whole: Tensor = Linear(f"{name}_proj", width)(x)
            return whole
        narrow = Linear(f"{name}_a_proj", self.rank)(x)
        projected: Tensor = Linear(f"{name}_b_proj", width)(narrow)
        return projected

    def check(self) -> Iterator[Conflict]:
        """Conflict: a rank of gates that are full."""
        yield from super().check()
        if self.full_gates and self.gate_rank is not None:
            yield Conflict("full-gates-rank", "gate_rank", "full gates have no rank", "leave one of them out")
