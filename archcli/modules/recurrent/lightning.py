"""Lightning attention: linear attention with constant decays, one per head and layer.

B batch, T new tokens, D d_model, H heads, d head_dim.
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
from archcli.ops import HeadDecay, Linear, MergeHeads, SplitHeads, StateScan


class LightningAttention(Recurrent):
    """Linear attention of silu(q), silu(k), silu(v). arXiv:2401.04658, MiniMax-01 arXiv:2501.08313.

        q, k, v = silu(W u)                         [H, d] each
        S_t = a S_(t-1) + k_t v_t^T                 [d, d] per head
        out = W_o (norm(S_t^T q_t) sigmoid(W_g u))

    log a of head h from 1 is -2^(-8 h / H) (1 - l / (L - 1)) in layer l of L from 0: the first layers forget
    fastest, the last nothing. `activation` is that of queries, keys and values; `norm` is over all heads
    together. The state is H d^2 elements whatever the context.
    """

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
