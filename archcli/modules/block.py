"""Blocks: how attention A, feed-forward F and norms N are wired around the residual stream x.

pre_norm              post_norm           sandwich                norm_after            parallel
x = x + A(N x)        x = N(x + A x)      x = x + N(A(N x))       x = x + N(A x)        x = x + A(N x) + F(N x)
x = x + F(N x)        x = N(x + F x)      x = x + N(F(N x))       x = x + N(F x)
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from archcli.arith import Number
from archcli.graph import Tensor
from archcli.modules.attention import Attention
from archcli.modules.base import Inherit, Module, Positive
from archcli.modules.context import Context
from archcli.modules.ffn import FeedForward
from archcli.modules.norm import Norm
from archcli.ops import Add, Scale

Kept = tuple[Tensor, ...] | None


class Block(Module):
    """One layer: attention and a feed-forward network on a residual stream of width D.

    `residual_multiplier` scales what each adds to the stream (Granite 0.22, MiniCPM 1.4/sqrt(n_layers)); 1 adds it as
    it is.
    """

    family: ClassVar[str] = "block"
    attention: Attention
    ffn: FeedForward
    norm: Annotated[Norm, Inherit("norm"), Field()]
    residual_multiplier: Positive = 1.0

    def forward(self, x: Tensor, context: Context | None = None) -> tuple[Tensor, Kept]:
        """[B, T, D] to [B, T, D], and what this layer's cache holds afterwards."""
        raise NotImplementedError

    def table(self, positions: Tensor, d_model: Number, name: str) -> tuple[Tensor, Tensor] | None:
        """The rotary table the layer's attention needs, so that a stack makes it once."""
        return self.attention.table(positions, d_model, name)

    def _attend(self, x: Tensor, context: Context | None) -> tuple[Tensor, Kept]:
        y, kept = self.attention(x, context, name="attention")
        return y, kept

    def _add(self, x: Tensor, y: Tensor, name: str) -> Tensor:
        if self.residual_multiplier != 1.0:
            y = Scale(f"{name}_multiplier", self.residual_multiplier)(y)
        total: Tensor = Add(f"{name}_residual")(x, y)
        return total


class PreNorm(Block):
    """x += A(N x); x += F(N x). The stream itself is never normalized. Xiong et al. 2020, arXiv:2002.04745.

    GPT-2, Llama.
    """

    kind: Literal["pre_norm"] = "pre_norm"

    def forward(self, x: Tensor, context: Context | None = None) -> tuple[Tensor, Kept]:
        """Norm, attend, add; norm, feed forward, add."""
        y, kept = self._attend(self.norm(x, name="attention_norm"), context)
        x = self._add(x, y, "attention")
        return self._add(x, self.ffn(self.norm(x, name="ffn_norm"), name="ffn"), "ffn"), kept


class PostNorm(Block):
    """x = N(x + A x); x = N(x + F x). Vaswani et al. 2017, arXiv:1706.03762; BERT."""

    kind: Literal["post_norm"] = "post_norm"

    def forward(self, x: Tensor, context: Context | None = None) -> tuple[Tensor, Kept]:
        """Attend, add, norm; feed forward, add, norm."""
        y, kept = self._attend(x, context)
        x = self.norm(self._add(x, y, "attention"), name="attention_norm")
        return self.norm(self._add(x, self.ffn(x, name="ffn"), "ffn"), name="ffn_norm"), kept


class Sandwich(Block):
    """x += N(A(N x)); x += N(F(N x)): norms before and after, also called double norm. CogView, arXiv:2105.13290.

    Gemma 2, arXiv:2408.00118.
    """

    kind: Literal["sandwich"] = "sandwich"

    def forward(self, x: Tensor, context: Context | None = None) -> tuple[Tensor, Kept]:
        """Norm, attend, norm, add; the same around the feed-forward network."""
        y, kept = self._attend(self.norm(x, name="attention_norm"), context)
        x = self._add(x, self.norm(y, name="attention_post_norm"), "attention")
        y = self.ffn(self.norm(x, name="ffn_norm"), name="ffn")
        return self._add(x, self.norm(y, name="ffn_post_norm"), "ffn"), kept


class NormAfter(Block):
    """x += N(A x); x += N(F x): the norm follows the sublayer, inside the residual.

    OLMo 2, arXiv:2501.00656 section 2.1.

    Differs from PostNorm in leaving the residual stream itself unnormalized.
    """

    kind: Literal["norm_after"] = "norm_after"

    def forward(self, x: Tensor, context: Context | None = None) -> tuple[Tensor, Kept]:
        """Attend, norm, add; feed forward, norm, add."""
        y, kept = self._attend(x, context)
        x = self._add(x, self.norm(y, name="attention_norm"), "attention")
        return self._add(x, self.norm(self.ffn(x, name="ffn"), name="ffn_norm"), "ffn"), kept


class Parallel(Block):
    """x += A(N x) + F(N x): both read the same stream. GPT-J; PaLM, arXiv:2204.02311 section 2.

    `n_norms` 1 shares one norm (GPT-J, Falcon-7B, Phi-2); 2 gives each its own (GPT-NeoX, arXiv:2204.06745;
    Falcon-40B).
    """

    kind: Literal["parallel"] = "parallel"
    n_norms: Literal[1, 2] = 1

    def forward(self, x: Tensor, context: Context | None = None) -> tuple[Tensor, Kept]:
        """Norm, attend and feed forward side by side, add both."""
        shared = self.norm(x, name="attention_norm")
        own = shared if self.n_norms == 1 else self.norm(x, name="ffn_norm")
        y, kept = self._attend(shared, context)
        return self._add(self._add(x, y, "attention"), self.ffn(own, name="ffn"), "ffn"), kept
