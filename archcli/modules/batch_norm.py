"""BatchNorm: the norm whose statistics are those of a channel over all tokens of the batch."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from archcli.modules.base import Positive
from archcli.modules.norm import Norm
from archcli.modules.values import Interval
from archcli.ops import BatchNormalize


class BatchNorm(Norm):
    """y = (x - mean) / sqrt(var + eps) * weight + bias, each channel over all tokens of the batch.

    Ioffe & Szegedy 2015, arXiv:1502.03167. Differs from LayerNorm in what is averaged over: B T tokens, not D
    channels, so that in training tokens depend on all others, later ones included. Outside of training
    running averages are used. `momentum` is the share of the running averages that a batch replaces. eps 1e-5
    and momentum 0.1 as in torch.
    """

    per_head: ClassVar[bool] = False
    kind: Literal["batchnorm"] = "batchnorm"
    eps: Positive = 1e-5
    momentum: Annotated[float, Interval(gt=0, le=1)] = 0.1

    def normalize(self, name: str, axes: int = 1) -> BatchNormalize:
        """The BatchNormalize op, with statistics of each channel (the last axis)."""
        return BatchNormalize(name, self.eps, self.momentum)
