"""Scaling laws: the parameters and tokens that a training budget is best spent on.

N parameters, D tokens, C FLOPs. All count C = 6 N D, and were fitted to dense decoders. Each has its source
and its doubt.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from math import log
from typing import Any, Literal, NamedTuple

from archcli.arith import rounded
from archcli.measure.passes import train_pass
from archcli.modules import Model
from archcli.modules.spec.request import usual_tokens
from archcli.wings.shapes.scale.shape import counted

LawName = Literal["besiroglu", "hoffmann-1", "hoffmann-2", "hoffmann-3"]
DEFAULT_LAW: LawName = "besiroglu"
FLOPS_PER_PARAM = 6
"""FLOPs of training per parameter and token: C = 6 N D (Kaplan et al., arXiv:2001.08361)."""
HOFFMANN = "Hoffmann et al. 2022, arXiv:2203.15556"


class ScalingLaw(NamedTuple):
    """The best N of a budget is `factor` x C^`exponent`; then D = C / 6N.

    `label` and `source` say whose it is, `doubt` how sure it is.
    """

    label: str
    factor: float
    exponent: float
    source: str
    doubt: str

    def params(self, flops: float) -> float:
        """The best number of parameters for these FLOPs."""
        best: float = self.factor * flops**self.exponent
        return best

    def flops(self, params: float) -> float:
        """The FLOPs for which so many parameters are the best."""
        budget: float = (params / self.factor) ** (1 / self.exponent)
        return budget

    def tokens(self, params: float) -> float:
        """The tokens that so many parameters are best trained on."""
        return self.flops(params) / (FLOPS_PER_PARAM * params)


class TableEnds(NamedTuple):
    """The first and last row of a table of projections: (parameters, FLOPs) each."""

    first: tuple[float, float]
    last: tuple[float, float]

    def law(self, label: str, source: str, doubt: str) -> ScalingLaw:
        """The power law through both, which the rows between follow."""
        (n, c), (m, d) = self
        exponent = log(m / n) / log(d / c)
        return ScalingLaw(label, n / c**exponent, exponent, source, doubt)


class LossFit(NamedTuple):
    """L(N, D) = E + A / N^alpha + B / D^beta, in nats per token."""

    e: float
    a: float
    b: float
    alpha: float
    beta: float

    def loss(self, params: float, tokens: float) -> float:
        """The loss of so many parameters after so many tokens."""
        fitted: float = self.e + self.a / params**self.alpha + self.b / tokens**self.beta
        return fitted

    def law(self, label: str, source: str, doubt: str) -> ScalingLaw:
        """The law of the least loss for C: N = G (C / 6)^(beta / (alpha + beta)), Hoffmann's equation 4."""
        exponent = self.beta / (self.alpha + self.beta)
        g = (self.alpha * self.a / (self.beta * self.b)) ** (1 / (self.alpha + self.beta))
        return ScalingLaw(label, g / FLOPS_PER_PARAM**exponent, exponent, source, doubt)


BESIROGLU_FIT = LossFit(e=1.8172, a=482.01, b=2085.43, alpha=0.3478, beta=0.3658)
HOFFMANN_FIT = LossFit(e=1.6934, a=406.4, b=410.7, alpha=0.3392, beta=0.2849)
FITS: Mapping[str, LossFit] = {"besiroglu": BESIROGLU_FIT, "hoffmann-3": HOFFMANN_FIT}
"""The laws with a fit of the loss."""
# (N, C) of the rows of 400M and of 10T parameters
TABLE_3 = TableEnds((4e8, 1.92e19), (1e13, 1.30e28))
TABLE_A3 = TableEnds((4e8, 1.84e19), (1e13, 1.75e28))
LAWS: Mapping[LawName, ScalingLaw] = {
    "besiroglu": BESIROGLU_FIT.law(
        "Besiroglu et al. 2024",
        "Besiroglu et al. 2024, arXiv:2404.10102: approach 3 fitted anew",
        "240 runs read off a figure; standard errors A 125, B 1293, alpha and beta 0.02, exponent 0.02",
    ),
    "hoffmann-1": TABLE_3.law(
        "Hoffmann et al. 2022, approach 1",
        f"{HOFFMANN}: minima of training curves, by the ends of table 3",
        "exponent 0.488 to 0.502 (80%); models of 70M to 16B, beyond that a projection",
    ),
    "hoffmann-2": TABLE_A3.law(
        "Hoffmann et al. 2022, approach 2",
        f"{HOFFMANN}: IsoFLOP profiles, by the ends of table A3",
        "exponent 0.462 to 0.534 (80%); models of 70M to 16B, beyond that a projection",
    ),
    "hoffmann-3": HOFFMANN_FIT.law(
        "Hoffmann et al. 2022, approach 3",
        f"{HOFFMANN}: a fitted loss, its exponents unrounded as in the paper's TeX source (arXiv:2404.10102)",
        "its optimizer stopped early, and its interval of 0.454 to 0.455 is too narrow (arXiv:2404.10102)",
    ),
}
"""The laws that `--law` names."""


class TrainingCost(NamedTuple):
    """The training cost of a token in sequences of `seq_len`: FLOPs of matrix products, and all others.

    `active_params` are the N of the laws: of a dense model all parameters.
    """

    seq_len: int
    matmul_flops: Fraction
    other_flops: Fraction
    active_params: int

    @property
    def approximate(self) -> int:
        """FLOPs of a token by 6 N."""
        return FLOPS_PER_PARAM * self.active_params

    def tokens_of(self, flops: int) -> int:
        """The tokens that a budget of FLOPs trains on, by the model's own count."""
        return int(flops / self.matmul_flops)


def training_cost(model: Model, seq_len: int | None = None) -> TrainingCost:
    """Count a training pass of one sequence. Raises ArchError where the model cannot train on it."""
    length = seq_len or int(usual_tokens(model.max_seq_len))
    # fractions: FLOPs per token as a float, times 1e13 tokens, would be off by many FLOPs
    matmul, rest = (Fraction(rounded(flops), length) for flops in train_pass(model, 1, length).flops())
    return TrainingCost(length, matmul, rest, counted(model)[1])


def training_totals(cost: TrainingCost, tokens: int, batch_tokens: int) -> dict[str, Any]:
    """Tokens, steps and FLOPs of a training by JSON's keys."""
    return {
        "tokens": tokens,
        "tokens_per_param": tokens / cost.active_params,
        "batch_tokens": batch_tokens,
        # the last step may have fewer tokens
        "steps": -(-tokens // batch_tokens),
        "flops": rounded(cost.matmul_flops * tokens),
        "other_flops": rounded(cost.other_flops * tokens),
        "flops_6nd": cost.approximate * tokens,
        "flops_per_token": float(cost.matmul_flops),
        "flops_per_token_6n": cost.approximate,
    }


def law_rows(params: int, flops: int) -> list[dict[str, Any]]:
    """A row for each law: the best size of the budget, its tokens, and the tokens of so many parameters."""
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
