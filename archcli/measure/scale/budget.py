"""Budget: the tokens and FLOPs of a training, by the model's own count and by 6 N D."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple

from archcli.arith import rounded
from archcli.measure.passes import train_pass
from archcli.measure.scale.laws import FITS, FLOPS_PER_PARAM, LAWS, LawName
from archcli.measure.scale.shape import counted
from archcli.modules import Model

DEFAULT_TOKENS = 2048


class TrainingCost(NamedTuple):
    """What training costs per token, of sequences of `seq_len`: FLOPs of matrix products, and all others.

    `active_params` are the N of the laws, all parameters of a dense model.
    """

    seq_len: int
    matmul_flops: Fraction
    other_flops: Fraction
    active_params: int

    @property
    def approximate(self) -> int:
        """The same by 6 N."""
        return FLOPS_PER_PARAM * self.active_params

    def tokens_of(self, flops: int) -> int:
        """The tokens that a budget of FLOPs trains on, by the model's own count."""
        return int(flops / self.matmul_flops)


def training_cost(model: Model, seq_len: int | None = None) -> TrainingCost:
    """Count a training pass of one sequence. Raises ArchError where the model cannot train on it."""
    length = seq_len or min(DEFAULT_TOKENS, model.max_seq_len or DEFAULT_TOKENS)
    matmul, other = (rounded(flops) for flops in train_pass(model, 1, length).flops())
    return TrainingCost(length, Fraction(matmul, length), Fraction(other, length), counted(model)[1])


def training_totals(cost: TrainingCost, tokens: int, batch_tokens: int) -> dict[str, Any]:
    """Tokens, steps and FLOPs of a training by JSON's keys."""
    return {
        "tokens": tokens,
        "tokens_per_param": tokens / cost.active_params,
        "batch_tokens": batch_tokens,
        "steps": -(-tokens // batch_tokens),
        "flops": rounded(cost.matmul_flops * tokens),
        "other_flops": rounded(cost.other_flops * tokens),
        "flops_6nd": cost.approximate * tokens,
        "flops_per_token": float(cost.matmul_flops),
        "flops_per_token_6n": cost.approximate,
    }


def law_rows(params: int, flops: int) -> list[dict[str, Any]]:
    """What each law says: the best size of this budget, its tokens, and the tokens of so many parameters."""
    return [_law_row(name, params, flops) for name in LAWS]


def _law_row(name: LawName, params: int, flops: int) -> dict[str, Any]:
    law = LAWS[name]
    best = law.params(flops)
    fit, tokens = FITS.get(name), flops / (FLOPS_PER_PARAM * best)
    return {
        "law": name,
        "source": law.source,
        "doubt": law.doubt,
        "exponent": law.exponent,
        "params": best,
        "tokens": tokens,
        "tokens_per_param": tokens / best,
        "tokens_of_shape": law.tokens(params),
        "loss": fit and fit.loss(best, tokens),
    }
