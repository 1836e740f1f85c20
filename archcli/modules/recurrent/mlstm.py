"""mLSTM: the layer of xLSTM-7B, a matrix memory with exponential input gates.

B batch, T new tokens, D d_model, H heads, N key_head_dim, P value_head_dim.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

from archcli.arith import Number
from archcli.graph import Tensor
from archcli.modules.attention.mixer import RecurrenceFacts
from archcli.modules.networks.activation import Sigmoid
from archcli.modules.recurrent.base import Recurrent
from archcli.modules.recurrent.gated_norm import GatedLayerNorm, GatedNorm, check_of_heads, of_heads
from archcli.modules.spec.base import Conflict, Positive, Size
from archcli.modules.spec.context import Context, Kept, or_default
from archcli.ops import Linear, MergeHeads, MLSTMScan, Scale, Softcap, SplitHeads


class MLSTM(Recurrent):
    """Matrix memory of an LSTM with exponential gates. arXiv:2405.04517; xLSTM-7B, arXiv:2503.13427.

        q, k, v = W u                               [H, N], [H, N], [H, P]
        i, f = softcap(W_i u + b), softcap(W_f u + b)           [H] each
        C_t = sigmoid(f) C_(t-1) + exp(i) k_t v_t^T             [N, P] per head
        n_t = sigmoid(f) n_(t-1) + exp(i) k_t                   [N] per head
        y_t = C_t^T q_t / sqrt(N) / max(|n_t q_t / sqrt(N)|, 1)
        out = W_o (norm(y) sigmoid(W_g u))          the norm is of each head

    C and n are stored divided by exp(m), the largest gate so far. `gate_softcap` c bounds the gates by
    c tanh(x / c), null leaves them; `eps` is added to the divisor. The state is H (N P + N + 1) elements
    whatever the context.
    """

    title: ClassVar[str] = "mLSTM"
    short_title: ClassVar[str] = "mLSTM"
    kind: Literal["mlstm"] = "mlstm"
    n_heads: Size
    key_head_dim: Size
    value_head_dim: Size
    chunk: Size = 64
    gate_softcap: Positive | None = 15.0
    eps: Positive = 1e-6
    bias: bool = False
    norm: GatedNorm = GatedLayerNorm(eps=1e-6, gate="after", activation=Sigmoid())

    def recurrence(self, d_model: Number | None = None) -> RecurrenceFacts:
        """H states of N times P."""
        return RecurrenceFacts(self.n_heads, self.key_head_dim, self.value_head_dim, self.n_heads, self.chunk)

    def forward(self, x: Tensor, context: Context | None = None) -> tuple[Tensor, Kept]:
        """[B, T, D] to [B, T, D]; the cache holds C [B, H, N, P], n [B, H, N] and m [B, H]."""
        cache = or_default(x, context).cache
        q = Scale("q_scale", self.key_head_dim**-0.5)(self._heads(x, "q", self.key_head_dim))
        k, v = self._heads(x, "k", self.key_head_dim), self._heads(x, "v", self.value_head_dim)
        scan = MLSTMScan("scan", self.chunk, self.form, cache is not None, self.eps)
        y, *state = scan(q, k, v, self._gate(x, "i"), self._gate(x, "f"), *(cache or ()))
        gate = Linear("g_proj", self.n_heads * self.value_head_dim, self.bias)(x)
        mixed = of_heads(self.norm, self.n_heads)(MergeHeads("merge")(y), gate, name="norm")
        return Linear("o_proj", x.shape[-1], self.bias)(mixed), None if cache is None else tuple(state)

    def _heads(self, x: Tensor, which: str, width: Number) -> Tensor:
        projected = Linear(f"{which}_proj", self.n_heads * width, self.bias)(x)
        heads: Tensor = SplitHeads(f"{which}_heads", self.n_heads)(projected)
        return heads

    def _gate(self, x: Tensor, which: str) -> Tensor:
        """Input or forget gates before their exponential, [B, T, H]."""
        # biased whatever `bias` says, as igate_preact and fgate_preact of xLSTM-7B
        gate: Tensor = Linear(f"{which}_proj", self.n_heads, bias=True)(x)
        return gate if self.gate_softcap is None else Softcap(f"{which}_softcap", self.gate_softcap)(gate)

    def check(self) -> Iterator[Conflict]:
        """Conflict: a norm with groups, as each head is normalized by itself."""
        yield from super().check()
        yield from check_of_heads(self.norm)
