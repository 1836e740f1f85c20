"""Losses: the scalar that training minimizes, computed from the tokens' likelihoods.

B batch, T tokens, V vocab_size. Targets [B, T] are the ids that should be predicted, already shifted by one.
"""

from __future__ import annotations

from typing import ClassVar, Literal, NamedTuple

from archcli.arith import Number
from archcli.graph import Tensor
from archcli.modules.spec.base import Inline, Positive
from archcli.modules.spec.trace import LOSS
from archcli.ops import Add, GatherLast, LogSumExp, Mean, Multiply, Scale, Subtract


class Likelihood(NamedTuple):
    """-log p of the targets [B, T], and log Z [B, T], the logarithm of the softmax's denominator."""

    nll: Tensor
    log_z: Tensor


def likelihood(logits: Tensor, targets: Tensor, name: str = LOSS) -> Likelihood:
    """The likelihood of a softmax over logits [..., V]: -log p is log Z minus the target's logit."""
    log_z: Tensor = LogSumExp(f"{name}_log_z")(logits, group=LOSS)
    logit: Tensor = GatherLast(f"{name}_target_logit")(logits, targets, group=LOSS)
    return Likelihood(Subtract(f"{name}_nll")(log_z, logit, group=LOSS), log_z)


class Loss(Inline):
    """A scalar of the likelihoods of all tokens."""

    family: ClassVar[str] = "loss"
    group: ClassVar[str] = LOSS

    def forward(self, nll: Tensor, log_z: Tensor, count: Number | None = None, *, name: str) -> Tensor:
        """A scalar of -log p and log Z of every token.

        Sums are divided by `count`; left out, by the number of tokens.
        """
        raise NotImplementedError


class CrossEntropy(Loss):
    """L = mean(-log p(target)) + z_loss * mean(log^2 Z).

    `z_loss` is the coefficient of the second term, which keeps log Z near 0: 1e-4 in PaLM (arXiv:2204.02311
    section 5) and, of a router, in ST-MoE (arXiv:2202.08906); left out there is none.
    """

    kind: Literal["cross_entropy"] = "cross_entropy"
    z_loss: Positive | None = None

    def forward(self, nll: Tensor, log_z: Tensor, count: Number | None = None, *, name: str) -> Tensor:
        """A scalar of nll [B, T] and log Z [B, T]."""
        loss: Tensor = Mean(f"{name}_mean", count)(nll)
        if self.z_loss is None:
            return loss
        squared = Multiply(f"{name}_log_z_squared")(log_z, log_z)
        penalty = Scale(f"{name}_z_scale", self.z_loss)(Mean(f"{name}_z_mean", count)(squared))
        total: Tensor = Add(f"{name}_total")(loss, penalty)
        return total


USUAL: Loss = CrossEntropy.unchecked()
"""The loss of a model that is trained on targets and states none."""
