"""Norms over the places of a grid: group norms, and global response normalization."""

from __future__ import annotations

from typing import ClassVar, Literal

from archcli.modules.networks.norm import Norm
from archcli.modules.spec.base import Positive, Size
from archcli.ops import GroupNormalize, ResponseNormalize


class GroupNorm(Norm):
    """y = (x - mean) / sqrt(var + eps) * weight + bias, over all places of a group of channels of a grid.

    Wu & He 2018, arXiv:1803.08494. Each of `groups` groups of channels has one mean; 1 is a mean of the whole
    grid [h, w, C] (PoolFormer, arXiv:2111.11418). eps 1e-5 as in torch.
    """

    per_head: ClassVar[bool] = False
    kind: Literal["groupnorm"] = "groupnorm"
    eps: Positive = 1e-5
    groups: Size = 1

    def normalize(self, name: str, axes: int = 1) -> GroupNormalize:
        """The GroupNormalize op, which reads a grid [B, h, w, C]."""
        return GroupNormalize(name, self.eps, self.groups)


class GlobalResponseNorm(Norm):
    """y = weight * x n_c / (mean of n + eps) + bias + x, n_c the length of channel c over a grid.

    ConvNeXt V2, arXiv:2301.00808 section 3. Weight and bias start at 0, so that y is x.
    """

    per_head: ClassVar[bool] = False
    kind: Literal["global_response"] = "global_response"
    eps: Positive = 1e-6

    def normalize(self, name: str, axes: int = 1) -> ResponseNormalize:
        """The ResponseNormalize op, which reads a grid [B, h, w, C]."""
        return ResponseNormalize(name, self.eps)
