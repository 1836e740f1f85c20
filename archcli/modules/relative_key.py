"""Relative keys: the distance between query and key as a trained vector that is added to the key."""

from __future__ import annotations

from typing import Literal

from archcli.arith import Number
from archcli.graph import Tensor
from archcli.modules.base import Size
from archcli.modules.position import Position
from archcli.ops import RelativeKeys


class RelativeKey(Position):
    """A trained vector per clipped distance is added to the key: score (q . (k_j + a_(j-i))).

    Shaw et al. 2018, arXiv:1803.02155.

    Distances beyond `max_distance` k share a vector: 2k + 1 vectors of head_dim, shared by the heads of a
    layer.
    """

    acts_on = "keys"
    kind: Literal["shaw"] = "shaw"
    max_distance: Size

    def score_bias(self, q: Tensor, positions: Tensor, visible: Number, scale: float) -> Tensor:
        """scale q . a, for every query and key."""
        bias: Tensor = RelativeKeys("relative_keys", self.max_distance, visible, scale)(
            q, positions, group=self.group
        )
        return bias
