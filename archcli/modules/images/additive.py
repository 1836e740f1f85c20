"""AdditiveAttention: every place is multiplied by one sum of all queries. SwiftFormer.

B batch, h and w rows and columns, C channels, T = h w places.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from archcli.graph import Tensor
from archcli.modules.attention.mixer import Mixer
from archcli.modules.networks.norm import RMSNorm
from archcli.modules.spec.context import Context
from archcli.ops import (
    Add,
    FlattenPlaces,
    FoldPlaces,
    Linear,
    Multiply,
    Scale,
    Softmax,
    SumTokens,
)

LENGTH = RMSNorm(eps=1e-12, weight=False)
"""The norm that brings queries and keys to the length sqrt(C)."""


class AdditiveAttention(Mixer):
    """y = W4 (W3 (g * k) + q) with g = sum_t a_t q_t, q and k of length 1.

    SwiftFormer, arXiv:2303.15446 section 3.2. The weight a of a query is the softmax of one number, as the
    paper's code has it, and so 1.
    """

    title: ClassVar[str] = "Additive attention"
    short_title: ClassVar[str] = "additive"
    kind: Literal["additive"] = "additive"

    def forward(self, x: Tensor, context: Context | None = None) -> tuple[Tensor, None]:
        """[B, h, w, C] to [B, h, w, C]."""
        width, grid = x.shape[3], (x.shape[1], x.shape[2])
        tokens = FlattenPlaces("tokens")(x)
        q, k = (self._unit(Linear(f"{which}_proj", width, True)(tokens), which) for which in "qk")
        scaled = Scale("weigh_scale", width**-0.5)(Linear("weigh", 1)(q))
        weights = Softmax("weights")(scaled)
        total = SumTokens("sum")(Multiply("weighed")(q, weights))
        mixed = Linear("mix_proj", width, True)(Multiply("mixed")(k, total))
        y = Linear("o_proj", width, True)(Add("query_add")(mixed, q))
        return FoldPlaces("grid", grid)(y), None

    def _unit(self, x: Tensor, which: str) -> Tensor:
        """x of length 1."""
        normed = LENGTH(x, name=f"{which}_length", group="qk_norm")
        unit: Tensor = Scale(f"{which}_unit", x.shape[2] ** -0.5)(normed, group="qk_norm")
        return unit
