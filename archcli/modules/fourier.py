"""Fourier mixing: tokens see each other through a transform without weights.

B batch, T tokens, D d_model.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from archcli.arith import Number
from archcli.graph import Tensor
from archcli.modules.context import Context
from archcli.modules.mixer import Kept, Mixer, MixerFacts
from archcli.ops import Fourier


class FourierMixer(Mixer):
    """y = Re F_T(F_D(x)), discrete Fourier transforms along the channels and along the tokens.

    FNet, Lee-Thorp et al. 2021, arXiv:2105.03824 section 3.2. For encoders: every token sees every other.
    """

    kind: Literal["fourier"] = "fourier"

    def forward(self, x: Tensor, context: Context | None = None) -> tuple[Tensor, Kept]:
        """[B, T, D] to [B, T, D]; nothing is cached."""
        y: Tensor = Fourier("transform")(x)
        return y, None if context is None or context.cache is None else ()

    def facts(self, d_model: Number | None = None) -> MixerFacts:
        """A mixer of all tokens, without heads."""
        return replace(super().facts(d_model), causal=False, pattern="bidirectional")
