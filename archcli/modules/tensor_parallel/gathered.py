"""GatheredNorm: a norm over channels that the ranks of a tensor-parallel group share."""

from __future__ import annotations

from collections.abc import Mapping

from archcli.arith import is_whole
from archcli.graph import Tensor
from archcli.modules.networks.norm import Norm
from archcli.modules.spec.base import Inline
from archcli.ops import AllGather, OwnPart


class GatheredNorm(Inline):
    """Gathers the channels of all ranks, normalizes them, and goes on with the rank's own.

    Its weights are those of all channels, on every rank, as in vLLM and in transformers' plans (OLMo 2).
    `ranks` is how many share the channels, `of_op` the same for single ops by name. Parameters and FLOPs are
    counted in the group `counted_in`, or in that of norms.
    """

    norm: Norm
    ranks: int
    of_op: Mapping[str, int] = {}
    counted_in: str = ""

    def forward(self, x: Tensor, *, name: str, axes: int = 1) -> Tensor:
        """x [..., d / ranks] to the same."""
        # keys may have fewer heads than ranks, and are then gathered among fewer
        ranks = self.of_op.get(name, self.ranks)
        if is_whole(ranks) and ranks == 1:
            return self.norm(x, name=name, group=self.counted_in, axes=axes)
        gathered = AllGather(f"{name}_gather", ranks)(x)
        normalized = self.norm(gathered, name=name, group=self.counted_in, axes=axes)
        part: Tensor = OwnPart(f"{name}_own", ranks)(normalized)
        return part
