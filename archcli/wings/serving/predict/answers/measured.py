"""A measured time beside its prediction: MFU, the gap, and explanations for it.

A time is that of a step, a pass or a token; of serving that of a token after the first. A rate is that of all
sequences together, and so of serving the time of all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from archcli.measure.passes import count_pass
from archcli.units import parse_pace
from archcli.wings.serving.predict.answers.gap import Explanation, Gap, not_predicted, way_to_look
from archcli.wings.serving.predict.answers.limits import Limit, beyond_limit, duration, in_one_unit, limits
from archcli.wings.serving.predict.answers.question import PredictAnswer, PredictQuestion
from archcli.wings.serving.predict.answers.tables import to_four
from archcli.wings.serving.predict.prediction import Prediction

Record = dict[str, Any]
OF = {"train": "a step", "forward": "a pass", "prefill": "a prefill", "decode": "a token of each sequence"}
AS_EXPECTED = 0.02
"""A measured time counts as expected up to 2% beside it."""
MANY, FEWEST = 10, 1e-3
"""Shares between which a percentage is easily read."""
NEAR = 1.5
"""Up to 1.5 times the high end of a range, the prediction may be at fault."""
FAR = 10
"""From 10 times the high end of a range on, something else ran than was predicted."""
OUTSIDE = "; or the prediction: one measurement in five lies outside of its range"
SAME_MFU = 0.005
"""Differences of MFU below this have no note."""
FEW = 3
"""Explanations in a sentence."""
FASTER = {
    True: "kernels that fuse more (--compile), another plan, or a batch, length or --recompute other than "
    "asked",
    False: "kernels that fuse more (--engine), weights or a cache of fewer bits (--dtype, --kv-dtype), or "
    "fewer or shorter sequences than asked",
}
"""Causes of a step, or a pass of inference, faster than the range."""
IMPOSSIBLE = {
    True: "a clock that did not wait for the device (torch.cuda.synchronize), a micro batch taken for a "
    "step, more devices, shorter sequences or a narrower dtype than asked",
    False: "a clock that did not wait for the device, tokens/s of all sequences taken for those of one, "
    "prompt tokens counted as generated, speculative decoding, a cached prompt, more devices or fewer bits "
    "than asked",
}
"""Causes of a figure that no device could reach."""


class MeasuredPass(NamedTuple):
    """Measured seconds, the prediction of the same, and the question that it answers.

    of: what takes the seconds, in words.
    cached: the purposes of rows with states.
    late_s: what a token is expected to wait for prefills of other sequences.
    """

    seconds: float
    of: str
    prediction: Prediction
    question: PredictQuestion
    cached: Mapping[str, str]
    late_s: float = 0.0

    @property
    def mfu(self) -> float:
        """FLOPs of the architecture a second, as a share of the peak, at the measured time."""
        return self.prediction.mfu * self.prediction.seconds.expected / self.seconds

    @property
    def expected(self) -> float | None:
        """Expected seconds; None where no constants are known."""
        return self.prediction.seconds.expected if self.prediction.seconds.is_calibrated else None

    @property
    def gap(self) -> Gap:
        """The measured seconds as a gap, which may be below zero."""
        return Gap(self.question, self.prediction, self.seconds, self.late_s)

    def record(self) -> Record:
        """The figures by JSON's keys."""
        return {
            "time_s": self.seconds,
            "mfu": self.mfu,
            "of_floor": self.prediction.seconds.floor / self.seconds,
            "of_expected": None if self.expected is None else self.expected / self.seconds,
        }


def compared(question: PredictQuestion, answer: PredictAnswer, cached: Mapping[str, str]) -> MeasuredPass:
    """The measured pass of a question beside its prediction."""
    over, under, is_rate = parse_pace(question.options.measured or "")
    prediction, served = answer
    if served is not None and not is_rate:
        token = _middle_token(question)
        alone = token.answer().prediction
        late_s = served.per_token.expected - alone.seconds.expected
        of_token = alone._replace(seconds=served.per_token)
        return MeasuredPass(over / under, OF["decode"], of_token, token, cached, late_s)
    seconds = prediction.tokens * under / over if is_rate else over / under
    return MeasuredPass(seconds, OF.get(question.phase, "in all"), prediction, question, cached)


def _middle_token(question: PredictQuestion) -> PredictQuestion:
    """The question at the middle generated token: its cache has the mean length."""
    prompt = int(question.settings.tokens(question.model))
    unmeasured = replace(question.options, measured=None)
    settings = question.settings.decoding(question.model, prompt + question.options.new // 2)
    return replace(question, options=unmeasured, settings=settings)


def measured_totals(
    question: PredictQuestion, answer: PredictAnswer, totals: Mapping[str, Any], cached: Mapping[str, str]
) -> Record:
    """The totals `measured`, and `explained`: three sentences, and what would explain the gap by seconds."""
    comparison = compared(question, answer, cached)
    seconds = comparison.prediction.seconds
    explained: Sequence[Explanation] = ()
    if comparison.seconds > seconds.high:
        explained = comparison.gap.explanations()
    elif comparison.seconds < seconds.low:
        explained = comparison.gap.savings()
    lines = [_verdict(comparison), _parts(comparison), _explained(comparison, explained, fits=totals["fits"])]
    by = [explanation.record() for explanation in explained]
    return {"measured": comparison.record(), "explained": {"lines": lines, "by": by}}


def mfu_notes(question: PredictQuestion, mfu: float) -> Iterator[str]:
    """MFU with masked scores counted too, as others do, where it differs."""
    if question.phase in {"decode", "serve"}:
        return
    counted = count_pass(question.model, question.settings.request(question.model))
    all_pairs = mfu * float(counted.flops(unmasked=True)[0] / counted.flops()[0])
    if all_pairs > (1 + SAME_MFU) * mfu:
        yield (
            "MFU counts the attention scores that the mask allows; with all S x S, as PaLM, nanoGPT, "
            f"llm-foundry and Megatron-LM count, it is {100 * all_pairs:.1f}%."
        )


def _verdict(comparison: MeasuredPass) -> str:
    """The first sentence: measured beside expected and limit, and MFU."""
    seconds, measured = comparison.prediction.seconds, comparison.seconds
    figures = f"{duration(measured)} {comparison.of}, MFU {100 * comparison.mfu:.1f}%"
    of_limit = f"{_share(seconds.floor / measured)} the limit's"
    if comparison.expected is None:
        beyond = "Faster than the limit" if measured < seconds.floor else "Against the limit alone"
        return f"{beyond}: {figures}; {of_limit} speed, {duration(seconds.floor)}."
    between = in_one_unit(seconds.low, seconds.high, " to ")
    of_expected = f"{_share(seconds.expected / measured)} the expected speed"
    expected = f"{duration(seconds.expected)} expected ({between})"
    return f"{_place(comparison)}: {figures}; {expected}: {of_expected}, {of_limit}."


def _share(share: float) -> str:
    """`66.4% of`; `20 times` where a percentage would have many digits."""
    if share >= MANY:
        return f"{to_four(share):,} times"
    return f"{100 * share:.3g}% of" if share >= FEWEST else f"less than {100 * FEWEST:g}% of"


def _place(comparison: MeasuredPass) -> str:
    """Where the measured time lies: `Slower than the range`."""
    seconds, measured = comparison.prediction.seconds, comparison.seconds
    if measured < seconds.floor:
        return "Faster than the limit"
    if abs(measured / seconds.expected - 1) <= AS_EXPECTED:
        return "As fast as expected"
    if measured > seconds.high:
        return "Slower than the range"
    if measured < seconds.low:
        return "Faster than the range"
    slower = measured > seconds.expected
    return f"Inside the range, {'slower' if slower else 'faster'} than expected"


def _parts(comparison: MeasuredPass) -> str:
    """The second sentence: the measured time as limit, what is usual beyond it, and the rest."""
    seconds, measured = comparison.prediction.seconds, comparison.seconds
    if measured < seconds.floor:
        return f"The limit alone is {duration(seconds.floor)}, {duration(seconds.floor - measured)} more."
    limit = f"Of {duration(measured)} the limit is {duration(seconds.floor)}"
    if comparison.expected is None:
        rest = duration(measured - seconds.floor)
        return f"{limit}; how much of the other {rest} is usual, no measurement of this device tells."
    usual = f"{duration(max(seconds.expected - seconds.floor, 0.0))} beyond it are usual"
    more = _with_late(beyond_limit(comparison.prediction, comparison.cached), comparison.late_s)[:2]
    if more:
        usual += f", most of all {' and '.join(f'{part.what} ({duration(part.seconds)})' for part in more)}"
    rest = "the gap" if measured > seconds.high else "more" if comparison.gap.seconds > 0 else "saved"
    return f"{limit}; {usual}; {duration(abs(comparison.gap.seconds))} are {rest}."


def _explained(comparison: MeasuredPass, explained: Sequence[Explanation], *, fits: bool) -> str:
    """The third sentence: what would explain the gap, the largest first, and how to look."""
    seconds, measured, question = comparison.prediction.seconds, comparison.seconds, comparison.question
    trains = question.phase == "train"
    parts = "".join(f"{it.sentence}, " for it in explained)
    if measured < seconds.floor:
        return f"The measurement or the question is wrong: {parts}{IMPOSSIBLE[trains]}."
    if measured < seconds.low:
        return f"No gap; what would explain it: {parts}{FASTER[trains]}."
    if measured <= seconds.high:
        without_wait = seconds._replace(expected=seconds.expected - comparison.late_s)
        spent = limits(comparison.prediction._replace(seconds=without_wait), comparison.cached)
        spent = _with_late(spent, comparison.late_s)[:FEW]
        parts = ", ".join(f"{part.what} {duration(part.seconds)}" for part in spent)
        return f"No gap to explain; as expected the time goes into {parts}."
    parts = ", ".join([*_other_question(comparison, fits=fits), *(it.sentence for it in explained[:FEW])])
    gap = duration(comparison.gap.seconds)
    known = f"What would explain {gap}: {parts}" if parts else f"No part of the prediction explains {gap}"
    outside = OUTSIDE if seconds.is_calibrated and measured < NEAR * seconds.high else ""
    return f"{known}; not predicted: {not_predicted(question)}{outside}.{way_to_look(question)}"


def _other_question(comparison: MeasuredPass, *, fits: bool) -> Iterator[str]:
    """Why the run may differ from the question."""
    if not fits:
        yield "something else ran, as this does not fit"
    elif comparison.seconds > FAR * comparison.prediction.seconds.high:
        yield "something else ran (batch, length, phase, dtype, device)"


def _with_late(parts: list[Limit], late_s: float) -> list[Limit]:
    """The parts of a token's time, with its wait for other prefills, the largest first."""
    late = [Limit("prefills of other sequences", late_s)] if late_s > 0 else []
    return sorted([*parts, *late], key=lambda part: -part.seconds)
