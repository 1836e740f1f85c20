"""Parallel: a block whose mixer and feed-forward network read the same stream."""

from __future__ import annotations

from typing import ClassVar, Literal

from archcli.graph import Tensor
from archcli.modules.block import Block
from archcli.modules.context import Context, or_default
from archcli.modules.ffn import caches, feed
from archcli.modules.mixer import Kept


class Parallel(Block):
    """x += A(N x) + F(N x): both read the same stream. GPT-J; PaLM, arXiv:2204.02311 section 2.

    `n_norms` 1 shares one norm (GPT-J, Falcon-7B, Phi-2); 2 gives each its own (GPT-NeoX, arXiv:2204.06745;
    Falcon-40B).
    """

    wiring: ClassVar[str] = "parallel"
    kind: Literal["parallel"] = "parallel"
    n_norms: Literal[1, 2] = 1

    def forward(self, x: Tensor, context: Context | None = None) -> tuple[Tensor, Kept]:
        """Normalize, run mixer and feed-forward network in parallel, add both to the stream."""
        context = or_default(x, context)
        self.hold(x)
        cache, fed = caches(self.ffn, context.cache)
        kept: Kept = None if cache is None else ()
        first = "ffn" if self.mixing is None else self.mixing[0]
        normed = self.norm(x, name=f"{first}_norm")
        shares = self.n_norms == 1 or self.mixing is None or self.ffn is None
        read = normed if shares else self.norm(x, name="ffn_norm")
        if self.mixing is not None:
            y, kept = self.mixing[1](normed, context._replace(cache=cache), name=first)
            x = self._add(x, y, first)
        if self.ffn is not None:
            y, kept = feed(self.ffn, read, fed, kept)
            x = self._add(x, y, "ffn")
        return x, kept
