"""Gated delta nets: a state that corrects what it holds under a key, and decays per head or channel.

B batch, T new tokens, D d_model, K heads of queries and keys, H heads of values, d width of a key, e of a
value.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from archcli.arith import Number
from archcli.graph import Tensor
from archcli.modules.activation import Activation, Sigmoid, SiLU
from archcli.modules.base import Conflict, Size
from archcli.modules.context import Context, or_default
from archcli.modules.mixer import Kept, RecurrenceFacts
from archcli.modules.recurrent.base import Recurrent
from archcli.modules.recurrent.gated_norm import GatedNorm, GatedRMSNorm
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
        """What the decay is a function of: [B, T, H], or [B, T, H, d] for one per channel."""
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
        q = Scale("q_scale", self.heads[0][2] ** -0.5)(L2Normalize("q_norm")(q))
        k = L2Normalize("k_norm")(k)
        decay, beta = self.decay(x), self.learning_rate(x)
        scan = DeltaScan("scan", self.chunk, self.form, cache is not None)
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
