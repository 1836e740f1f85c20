"""Speculative decoding: a draft makes N tokens, and the target verifies N + 1 in one pass.

Leviathan et al. 2023, arXiv:2211.17192. Of a share a of tokens accepted at each position, independently, a
round gives 1 + a + ... + a^N tokens.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from archcli.measure.report import Report
from archcli.modules import Model
from archcli.wings.serving.memory.beyond.drafts import HeldDraft, draft_plan
from archcli.wings.serving.memory.plan import Plan
from archcli.wings.serving.memory.settings import MemorySettings
from archcli.wings.serving.predict.prediction import Prediction, predict_pass
from archcli.wings.serving.predict.rank.kernels import CacheUse
from archcli.wings.serving.predict.rank.rank_times import TimingDevice
from archcli.wings.serving.predict.serving import KERNELS, WeightedStep, joined, predict_prompt
from archcli.wings.serving.predict.times import Seconds

ROUND = VERIFY, DRAFT, PROMPT = "verify", "draft", "draft prefill"
"""The stages of rows of a round, and of the draft's pass over the prompt."""
BY_POSITION = "How acceptance falls from position to position, and by text: one share stands for all."
BETWEEN = "What the host does between the passes of a round, and its lookups of n-grams."


class DraftRound(NamedTuple):
    """A round of all sequences: the pass that verifies, and `passes` of the draft before it.

    tokens: expected of each sequence. draft: one pass; None of n-grams, which take no time of the device.
    """

    verify: Prediction
    draft: Prediction | None
    passes: int
    tokens: float

    @property
    def parts(self) -> list[tuple[str, WeightedStep]]:
        """(stage, its passes) of the round."""
        drafted = [] if self.draft is None else [(DRAFT, WeightedStep(self.passes, self.draft))]
        return [(VERIFY, WeightedStep(1.0, self.verify)), *drafted]

    @property
    def seconds(self) -> Seconds:
        """The seconds of the round."""
        return self._joined(1.0).seconds

    @property
    def token(self) -> Prediction:
        """A token of each sequence: the share of the round that it takes."""
        needed = self.verify.model_flops / (self.passes + 1)  # a rejected token is none of the answer
        return self._joined(1 / self.tokens)._replace(model_flops=needed)

    def _joined(self, share: float) -> Prediction:
        parts = [(name, WeightedStep(share * weight, step)) for name, (weight, step) in self.parts]
        return joined(parts, self.verify.tokens // (self.passes + 1), KERNELS)


class DraftPass(NamedTuple):
    """What passes of a draft are predicted with: those of the draft asked alone."""

    model: Model
    settings: MemorySettings
    timing: TimingDevice
    use: CacheUse


@dataclass(frozen=True, slots=True)
class Speculation:
    """A draft of N `tokens` a round, of which the target accepts the share `accept` at each position.

    source: of a share that was not stated. passed, held: its passes and its memory; None of n-grams.
    """

    name: str
    tokens: int
    accept: float
    source: str = ""
    passed: DraftPass | None = None
    held: HeldDraft | None = None

    @property
    def per_round(self) -> float:
        """Expected tokens of a round: those accepted in a row, and one of the target."""
        return sum(self.accept**i for i in range(self.tokens + 1))

    def at_limit(self) -> Speculation:
        """The draft timed by the device's rates alone."""
        if self.passed is None:
            return self
        timing = self.passed.timing.at_limit(drops_runs=True)
        return replace(self, passed=self.passed._replace(timing=timing))

    def round(
        self, model: Model, settings: MemorySettings, device: TimingDevice, plan: Plan, use: CacheUse
    ) -> DraftRound:
        """Predict a round, by the settings of decoding one token without a draft."""
        past = int(settings.tokens(model))
        sizes: dict[str, Any] = {"seq_len": self.tokens + 1, "past": past, "media": ()}
        verifying = replace(settings.of_length(model, past), phase="prefill", verifies=True, **sizes)
        verify = predict_pass(model, verifying, device, plan, use)
        return DraftRound(verify, self._predicted(model, settings, plan), self.tokens, self.per_round)

    def with_prompt(
        self, model: Model, settings: MemorySettings, plan: Plan, prefill: Prediction
    ) -> Prediction:
        """The prefill of the target, and that of the draft behind it."""
        drafted = self._predicted(model, settings, plan)
        parts = [("prefill", WeightedStep(1.0, prefill))]
        parts += [] if drafted is None else [(PROMPT, WeightedStep(1.0, drafted))]
        return joined(parts, prefill.tokens, KERNELS)._replace(model_flops=prefill.model_flops)

    def _predicted(self, target: Model, settings: MemorySettings, plan: Plan) -> Prediction | None:
        """A pass of the draft alone in the phase of the settings."""
        if self.passed is None:
            return None
        model, alone, timing, use = self.passed
        sizes: dict[str, Any] = {"phase": settings.phase, "batch_size": settings.batch_size}
        mine = replace(alone, seq_len=settings.tokens(target), **sizes)
        arguments = (model, mine, timing, draft_plan(plan, model, mine), use)
        return predict_prompt(*arguments) if mine.phase == "prefill" else predict_pass(*arguments)

    def inputs(self) -> dict[str, Any]:
        """The options by JSON's keys."""
        return {"draft": self.name, "draft_tokens": self.tokens, "accept": self.accept}

    def noted(self, report: Report) -> Report:
        """The report with what a round gives, and what a prediction with a draft leaves out."""
        source = f" ({self.source})" if self.source else ""
        drafted = f"{self.tokens:,} drafted, {self.accept:.0%} of them accepted at each position{source}"
        note = f"Draft {self.name}: {self.per_round:.2f} tokens a round ({drafted}; one is the target's)."
        lacks = (*report.not_modelled, BY_POSITION, BETWEEN)
        return replace(report, notes=(note, *report.notes), not_modelled=lacks)

    @property
    def in_words(self) -> str:
        """`draft llama-3.2-1b of 4 tokens, 70% accepted`."""
        return f"draft {self.name} of {self.tokens:,} tokens, {self.accept:.0%} accepted"
