"""HeadDecay: constant decays, one per head, as lightning attention and RetNet have them.

B batch, T new tokens, H heads, P head_dim.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

from archcli.arith import Number, Shape
from archcli.graph import Op, Part
from archcli.graph.kept import FP32, Call
from archcli.ops.base import heads_of


@dataclass(frozen=True, slots=True, eq=False)
class HeadDecay(Op):
    """log a_h for every token: heads v [B, T, H, P] to [B, T, H].

    `slopes`: log a_h = -s_h f with the slopes s_h = 2^(-8 h / H) of ALiBi, h from 1, and a factor f of layer
    l of L, 1 - l / (L - 1 + 1e-5) + 1e-5 (arXiv:2401.04658; MiniMax-01, arXiv:2501.08313).
    `retention`: a_h = 1 - 2^(-5 - h), h from 0 (RetNet, arXiv:2307.08621 section 2.2).
    """

    component: ClassVar[str] = "recurrence"
    keeps_nothing: ClassVar[bool] = True
    zero_cost_reason: ClassVar[str] = "constants of the model"
    name: str
    kind: Literal["slopes", "retention"]
    layer: Number = 0
    n_layers: Number = 1
    peers: Any = field(default=None, repr=False)

    def shape(self, v: Shape) -> Shape:
        return v[:3]

    def trained(self, grads: list[bool], *xs: Shape) -> bool:
        """No: what it gives does not depend on the values of its input."""
        return False

    def parts(self, v: Shape) -> tuple[Part, ...]:
        return ()

    def widths(self, call: Call, v: Shape) -> tuple[Number, ...]:
        return (FP32,)

    def among(self, peers: Any) -> HeadDecay:
        """The op whose heads are this rank's among those that several ranks share."""
        return replace(self, peers=peers)

    def run(self, torch: Any, weights: dict[str, Any], v: Any) -> Any:
        wide = torch.promote_types(v.dtype, torch.float32)
        first, number = heads_of(v.shape[2], self.peers)
        heads = torch.arange(first, first + v.shape[2], dtype=wide, device=v.device)
        if self.kind == "retention":
            decay = torch.log1p(-torch.exp2(-5 - heads))
        else:
            factor = 1 - self.layer / (self.n_layers - 1 + 1e-5) + 1e-5
            decay = -factor * torch.exp2(-8 / number * (heads + 1))
        return decay.expand(v.shape[:3])
