"""NormedStream: blocks whose residual stream is what the norm gives (MiniMax-01)."""

from __future__ import annotations

from typing import Literal

from archcli.graph import Tensor
from archcli.modules.base import Positive
from archcli.modules.block import Block
from archcli.modules.context import Context, or_default
from archcli.modules.mixer import Kept
from archcli.ops import Scale


class NormedStream(Block):
    """x = N x; x = alpha x + beta A(x); x = N x; x = alpha x + beta F(x).

    The stream is normalized before each sublayer, which adds to what it reads: DeepNorm (arXiv:2203.00555)
    over normalized embeddings, as MiniMax-01 has it (arXiv:2501.08313). `alpha` and `beta` are those of the
    mixer, `ffn_alpha` and `ffn_beta` those of the network.
    """

    kind: Literal["normed_stream"] = "normed_stream"
    alpha: Positive = 1.0
    beta: Positive = 1.0
    ffn_alpha: Positive = 1.0
    ffn_beta: Positive = 1.0

    def forward(self, x: Tensor, context: Context | None = None) -> tuple[Tensor, Kept]:
        """Normalize, run the mixer and add; normalize, run the feed-forward network and add."""
        context = or_default(x, context)
        kept: Kept = None if context.cache is None else ()
        if self.mixing is not None:
            step, mixer = self.mixing
            x = self.norm(x, name=f"{step}_norm")
            y, kept = mixer(x, context, name=step)
            x = self._join(x, y, step, (self.alpha, self.beta))
        if self.ffn is not None:
            x = self.norm(x, name="ffn_norm")
            x = self._join(x, self.ffn(x, name="ffn"), "ffn", (self.ffn_alpha, self.ffn_beta))
        return x, kept

    def _join(self, x: Tensor, y: Tensor, name: str, factors: tuple[float, float]) -> Tensor:
        """alpha x + beta y."""
        alpha, beta = factors
        x = x if alpha == 1.0 else Scale(f"{name}_alpha", alpha)(x)
        y = y if beta == 1.0 else Scale(f"{name}_beta", beta)(y)
        return self._add(x, y, name)
