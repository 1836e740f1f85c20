"""The two ends of a model: token ids to vectors, and vectors to logits.

B batch, T new tokens, D d_model, V vocab_size.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from archcli.arith import Number
from archcli.graph import Tensor
from archcli.modules.base import Inline, Module, Positive
from archcli.modules.norm import Norm
from archcli.modules.position import NoPosition, Position
from archcli.ops import Embedding as Lookup
from archcli.ops import Linear, Scale, Softcap


class Embedding(Module):
    """x = scale * table[id] + position, then a norm if there is one. The table is [V, D].

    `tied` lets the output head use the same table (Press & Wolf 2016, arXiv:1608.05859). `scale` multiplies the
    vectors: a number, or sqrt_d_model (Vaswani et al. 2017, Gemma); left out they stay as they are. `norm` follows
    (BLOOM). `position` is what is added per token.
    """

    group: ClassVar[str] = "embedding"
    tied: bool = False
    scale: Positive | Literal["sqrt_d_model"] | None = None
    position: Position = Field(default_factory=NoPosition)
    norm: Norm | None = None

    def forward(self, tokens: Tensor, positions: Tensor, vocab_size: Number, d_model: Number) -> tuple[Tensor, Tensor]:
        """Ids [B, T] to vectors [B, T, D], and the table itself for a tied head."""
        lookup = Lookup("tokens", vocab_size, d_model)
        x = lookup(tokens)
        if self.scale is not None:
            x = Scale("scale", d_model**0.5 if self.scale == "sqrt_d_model" else self.scale)(x)
        x = self.position(x, positions, name="positions")
        x = x if self.norm is None else self.norm(x, name="norm")
        return x, x.tape.weight(lookup, tokens)


class Head(Inline):
    """logits = softcap(scale * (W x + b)).

    W is the embedding's table where that is tied, else a [V, D] matrix of its own.

    `scale` multiplies the logits (Command R 0.0625, Granite 1/logits_scaling); `softcap` c maps them to c
    tanh(logits/c) (Gemma 2).
    """

    group: ClassVar[str] = "lm_head"
    bias: bool = False
    scale: Positive = 1.0
    softcap: Positive | None = None

    def forward(self, x: Tensor, vocab_size: Number, table: Tensor | None, *, name: str) -> Tensor:
        """[B, T, D] to logits [B, T, V]; `table` is the tied weight, or None."""
        logits: Tensor = Linear(name, vocab_size, self.bias, table is not None)(x, *([] if table is None else [table]))
        if self.scale != 1.0:
            logits = Scale("logit_scale", self.scale)(logits)
        return logits if self.softcap is None else Softcap("logit_softcap", self.softcap)(logits)
