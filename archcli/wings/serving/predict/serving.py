"""Serving: a prefill of B sequences, and a decoding step for each new token.

A live server takes in a sequence when another ends. Each prefill is run alone, between steps of the others: a
sequence waits for some of them before its first token, and for the rest while it decodes. What an engine does
beside its kernels is one factor. With `--dtype fp8` products have constants of their own.

The bytes of most kernels of a step grow linearly with the context. So a few steps are predicted, and those
between them are interpolated linearly; where the middle of a span is off its chord, the span is halved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from math import fsum
from typing import Any, NamedTuple

from archcli.modules import Model
from archcli.modules.spec.arguments import EngineName
from archcli.wings.serving.memory.plan import Plan
from archcli.wings.serving.memory.settings import FP8, MemorySettings
from archcli.wings.serving.predict.communication.collective import Exposed
from archcli.wings.serving.predict.constants import Efficiency, Entry
from archcli.wings.serving.predict.live import TOKEN, LiveServer, Load, Prompts
from archcli.wings.serving.predict.prediction import Prediction, predict_pass
from archcli.wings.serving.predict.rank.kernels import CacheReads, CacheUse
from archcli.wings.serving.predict.rank.rank_times import TimingDevice
from archcli.wings.serving.predict.rank.rows import PredictedRow
from archcli.wings.serving.predict.times import PRODUCTS, Seconds
from archcli.wings.serving.recorded.classes import TimeClass


class Engine(NamedTuple):
    """The tokens a second of an engine over those of its kernels alone: expected, and the range.

    `source` says where the factor is from. `live` are constants of live servers, whose batches change from
    step to step; None for batches that begin and end together. `at_once` are the sequences that it runs at
    once of those asked, None for all.
    """

    speed: float = 1.0
    low: float = 1.0
    high: float = 1.0
    source: str = "kernels one after the other, and nothing else"
    live: LiveServer | None = None
    at_once: int | None = None


KERNELS = Engine()
"""Kernels alone."""
WHOLE_RUNS = Engine(source="its constants are of whole runs")
FIXED_BATCH = Engine(
    1.0, 0.88, 1.0, "0.88 to 1.00 of what its kernels allow; a batch of fixed size has no scheduler"
)
"""Engines of 2023, which read a cache once per query head, in batches that begin and end together."""


def engine_of(
    name: EngineName, reads: CacheReads, live: LiveServer | None, *, of_whole_runs: bool = False
) -> Engine:
    """The engine of a name with its live servers; that of a cache read once per query head is older."""
    if reads == "heads" and name != "none":
        return FIXED_BATCH
    if live is not None:
        return Engine(live.speed, live.speed, live.speed, "live servers", live)
    return WHOLE_RUNS if of_whole_runs else KERNELS


def with_engine(seconds: Seconds, engine: Engine, timed: tuple[str, Load] = (TOKEN, "one")) -> Seconds:
    """The seconds of an engine; the floor stays that of the kernels.

    The range is that of its live servers, without these that of the kernels.
    """
    if not seconds.is_calibrated:
        return seconds
    if engine.live is not None:
        return engine.live.of_kernels(seconds, *timed)
    floor, expected, low, high, *_ = seconds
    # the fastest engine has the shortest time
    return Seconds(floor, expected / engine.speed, low / engine.high, high / engine.low, is_calibrated=True)


def in_fewer_bits(device: TimingDevice, dtype: str = FP8) -> TimingDevice:
    """The device with constants of products in a narrow dtype; unchanged without constants in bf16.

    Measured fp8 products quantize their inputs first, in kernels of their own. An engine with static scales
    quantizes where the inputs are made, and a product runs at the dtype's peak on its bytes. It is expected
    to reach the share of the peak that bf16 products reach, and at worst takes as long as a measured one.
    """
    groups = device.clock.efficiency.groups
    products = groups.get(PRODUCTS, {})
    if "bf16" not in products:
        return device
    entries = {**products, dtype: _static(products["bf16"], products.get(dtype))}
    efficiency = Efficiency({**groups, PRODUCTS: entries})
    return device._replace(clock=device.clock._replace(efficiency=efficiency))


def _static(bf16: Entry, measured: Entry | None) -> Entry:
    """The constants of bf16, with the range up to that of products measured with quantization."""
    if measured is None:
        return bf16
    return {**bf16, "error": measured["error"], "high": max(bf16["high"], measured["high"])}


def at_peak(prediction: Prediction, device: TimingDevice, dtype: str) -> Prediction:
    """The prediction with the peak of a dtype, for its MFU. Raises ArchError where the device states none."""
    return prediction._replace(peak_flops=device.clock.rates.peak(dtype) * prediction.devices)


ROUNDING = 1e-6
OFF_THE_CHORD = 1e-3
"""Part of a step's seconds by which the middle of a span may lie off its chord."""
MOST_HALVINGS = 6
PredictStep = Callable[[int], Prediction]
"""Predicts one decoded token of each sequence, given the tokens before it."""
Passes = Callable[[MemorySettings], Prediction]
"""Predicts a prefill, or a decoded token, of these settings."""


class WeightedStep(NamedTuple):
    """A predicted step, and the number of steps that it stands for."""

    weight: float
    step: Prediction


@dataclass(frozen=True, slots=True)
class ServedTokens:
    """A prediction of serving: all of it, the first token, and each of the others.

    `whole` has the rows, the tokens and the seconds of the prefill and all steps together. Without an engine
    `first_token` is that of all sequences; its floor and low are those of one that is prefilled before the
    others. With a live server both are means over sequences that come one after the other, and `whole` takes
    as long as one of them. `at_once` of the sequences run, and the others wait.
    """

    whole: Prediction
    first_token: Seconds
    per_token: Seconds
    at_once: int


def serve(  # noqa: PLR0913
    model: Model,
    settings: MemorySettings,
    new: int,
    device: TimingDevice,
    plan: Plan,
    use: CacheUse,
    engine: Engine = KERNELS,
    *,
    drafted: Passes | None = None,
) -> ServedTokens:
    """Predict B = `batch_size` sequences of `seq_len` tokens, and `new` more of each.

    One prefill, then a step for each new token, of as many sequences as run at once; `drafted` predicts both
    with a draft. Raises ArchError as `predict_pass` does.
    """
    prompt, batch_size = int(settings.tokens(model)), int(settings.batch_size)
    settings = replace(settings, batch_size=engine.at_once or batch_size)
    running = int(settings.batch_size)

    def step(past: int) -> Prediction:
        decoding = settings.decoding(model, past)
        return predict_pass(model, decoding, device, plan, use) if drafted is None else drafted(decoding)

    def prefilled(prompt_settings: MemorySettings) -> Prediction:
        mine = replace(prompt_settings, phase="prefill")
        return predict_prompt(model, mine, device, plan, use) if drafted is None else drafted(mine)

    prefill = prefilled(settings)
    alone = prefill if running == 1 else prefilled(settings.alone())
    first = prefill.seconds._replace(floor=alone.seconds.floor, low=alone.seconds.low)
    steps = spanned(step, prompt, prompt + new - 1)
    rounds = batch_size / running
    again = [WeightedStep(rounds * weight, step) for weight, step in steps]
    names = ("prefill", "decode") if drafted is None else ("", "")
    parts = [(names[0], WeightedStep(rounds, prefill)), *((names[1], step) for step in again)]
    whole, per_token = joined(parts, batch_size * new, engine), added(steps, 1 / new)
    first, per_token = first.known(), per_token.known()
    if engine.live is None:
        first, per_token = with_engine(first, engine), with_engine(per_token, engine)
        return ServedTokens(whole, first, per_token, running)
    others = int(plan.of_replica(settings).batch_size) - 1
    added_s = alone.seconds.expected
    if plan.pp > 1:  # prompts follow one another through the stages
        added_s = prefill.seconds.expected / (others + 1)
    elif settings.engine is not None and settings.engine.mixes_prompts:
        added_s = added_to(steps[0].step, alone)
    computing_s = _computing(alone.rows, device)
    prompts = Prompts(alone.seconds, added_s, computing_s, others, new)
    served = ServedTokens(whole, steps[0].step.seconds, per_token, running)
    return _live(served, engine.live, prompts, rounds)


def predict_prompt(
    model: Model, settings: MemorySettings, device: TimingDevice, plan: Plan, use: CacheUse
) -> Prediction:
    """Predict a prefill, on one device in the chunks in which its engine runs a prompt.

    Each chunk reads all weights. Its time grows linearly with the tokens before it, so that the first and the
    last of equal ones stand for all.
    """
    tokens = int(settings.tokens(model))
    if device.chunk is None or plan.devices > 1 or settings.media or settings.source_len:
        return predict_pass(model, settings, device, plan, use)
    parts = [
        ("prefill", WeightedStep(weight, predict_pass(model, part, device, plan, use)))
        for weight, part in prompt_chunks(settings, model, device.chunk)
    ]
    return joined(parts, tokens * int(settings.batch_size), KERNELS) if parts[1:] else parts[0][1].step


def prompt_chunks(
    settings: MemorySettings, model: Model, chunk: int
) -> Iterator[tuple[float, MemorySettings]]:
    """The passes of chunks that stand for all, and how many each stands for."""
    tokens, before, sequences = int(settings.tokens(model)), int(settings.past), int(settings.batch_size)
    if tokens <= chunk:
        yield 1.0, settings
        return
    full, rest = divmod(tokens, chunk)
    passes = [(full / 2, chunk, before), (full / 2, chunk, before + (full - 1) * chunk)]
    passes += [(1, rest, before + full * chunk)] if rest else []
    for weight, length, past in passes:
        yield weight * sequences, replace(settings, batch_size=1, seq_len=length, past=past)


def _live(kernels: ServedTokens, live: LiveServer, prompts: Prompts, rounds: float) -> ServedTokens:
    """The tokens of kernels as a live server gives them, one sequence after the other."""
    load: Load = "full" if rounds > 1 else "several" if prompts.others else "one"
    times = kernels.first_token, kernels.per_token, kernels.whole.seconds
    first, per_token, whole = live.of_sequences(times, prompts, rounds, load)
    return ServedTokens(kernels.whole._replace(seconds=whole), first, per_token, kernels.at_once)


def _computing(rows: Iterable[PredictedRow], device: TimingDevice) -> float:
    """Seconds at the floor of the kernels that the peak bounds, not the bandwidth."""
    # of a kernel that the bandwidth bounds both are the same, but for rounding
    least = (1 + ROUNDING) / device.clock.rates.bandwidth
    return fsum(row.seconds.floor for row in rows if row.seconds.floor > row.bytes * least)


OF_SEQUENCES = (TimeClass.FUSED_ATTENTION, TimeClass.RECURRENCE)
"""Classes of kernels that read what each sequence keeps, and no weights."""


def added_to(step: Prediction, prompt: Prediction) -> float:
    """Expected seconds that a prompt adds to a step, in which it runs: kernels read their weights once."""
    prompt_s, step_s = _by_kernel(prompt), _by_kernel(step)
    in_kernels = fsum(
        seconds if op_class in OF_SEQUENCES else max(0.0, seconds - step_s.get((path, kernel, op_class), 0.0))
        for (path, kernel, op_class), seconds in prompt_s.items()
    )
    sent = prompt.seconds.expected - fsum(prompt_s.values())
    return in_kernels + max(0.0, sent - step.seconds.expected + fsum(step_s.values()))


def _by_kernel(prediction: Prediction) -> dict[tuple[str, str, str], float]:
    """Expected seconds by path, kernel and class."""
    seconds: dict[tuple[str, str, str], float] = {}
    for row in prediction.rows:
        key = row.path, row.kernel, row.op_class
        seconds[key] = seconds.get(key, 0.0) + row.seconds.expected
    return seconds


def spanned(step: PredictStep, first: int, last: int) -> list[WeightedStep]:
    """A few of the steps after `first` to `last` tokens; their weights add up to the number of all.

    By the trapezoidal rule: n steps on a straight line take n / 2 times the seconds of both ends.
    """
    known: dict[int, Prediction] = {}
    weights: dict[int, float] = {}

    def at(past: int) -> Prediction:
        if past not in known:
            known[past] = step(past)
        return known[past]

    def add(low: int, high: int) -> None:
        for end in (low, high):
            weights[end] = weights.get(end, 0.0) + (high - low + 1) / 2

    def halve(low: int, high: int, left: int) -> None:
        middle = (low + high) // 2
        # with one new token first and last are the same
        part = (middle - low) / max(high - low, 1)
        chord = (1 - part) * at(low).seconds.expected + part * at(high).seconds.expected
        if left and high - low > 1 and abs(chord / at(middle).seconds.expected - 1) > OFF_THE_CHORD:
            halve(low, middle, left - 1)
            halve(middle, high, left - 1)
            weights[middle] -= 1.0  # both halves have it
        else:
            add(low, high)

    halve(first, last, MOST_HALVINGS)
    return [WeightedStep(weight, known[past]) for past, weight in sorted(weights.items())]


def added(steps: list[WeightedStep], scale: float = 1.0) -> Seconds:
    """The seconds of all steps, times `scale`."""
    total = Seconds()
    for weight, step in steps:
        total = total.plus(step.seconds.scaled(weight * scale))
    return total


def longest(steps: list[WeightedStep]) -> Prediction:
    """The step that takes most of the time."""
    return max(steps, key=lambda part: part.weight * part.step.seconds.expected).step


def joined(parts: list[tuple[str, WeightedStep]], tokens: int, engine: Engine) -> Prediction:
    """All parts as one prediction of so many tokens; the `stage` of a row is the name of its part, if any."""
    steps = [step for _, step in parts]
    first = steps[0].step
    sums: dict[str, Any] = {
        name: fsum(weight * getattr(step, name) for weight, step in steps)
        for name in ("bubble_s", "model_flops", "executed_flops")
    }
    return first._replace(
        seconds=with_engine(added(steps).known(), engine),
        bound_by=longest(steps).bound_by,
        rows=tuple(_rows(parts)),
        communication=tuple(_sent(steps)),
        tokens=tokens,
        not_modelled=tuple(dict.fromkeys(text for step in steps for text in step.step.not_modelled)),
        **sums,
    )


def _rows(parts: list[tuple[str, WeightedStep]]) -> Iterator[PredictedRow]:
    """The rows of all parts, with equal kernels of a part and a bound as one row."""
    rows: dict[tuple[str, ...], PredictedRow] = {}
    for name, (weight, step) in parts:
        for row in step.rows:
            scaled = row.scaled(weight)._replace(stage=name or row.stage)
            key = (scaled.stage, row.path, row.kernel, row.bound_by)
            rows[key] = rows[key].plus(scaled) if key in rows else scaled
    yield from rows.values()


def _sent(steps: list[WeightedStep]) -> Iterator[Exposed]:
    """The collectives of all parts, equal ones as one."""
    collectives: dict[tuple[str, ...], Exposed] = {}
    for weight, step in steps:
        for part in step.communication:
            collective = part.timed.collective
            key = (collective.name, collective.purpose, str(collective.group))
            sent = part.scaled(weight)
            collectives[key] = collectives[key].plus(sent) if key in collectives else sent
    yield from collectives.values()
