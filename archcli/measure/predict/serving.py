"""Serving: a prefill of B sequences, a decoding step for each new token, and break-even points.

A live server takes in a sequence when another ends. Each prefill is run alone, between steps of the others: a
sequence waits for some of them before its first token, and for the rest while it decodes. What an engine does
beside its kernels is one factor. With `--dtype fp8` products have constants of their own.

Break-even points of decoding: the batch from which compute hides the reading of the weights, the context from
which the cache is larger than they are. Each step reads all weights once, W bytes, and computes F FLOPs for
each sequence: with b sequences both take as long where b F / P = W / B, P the peak and B the bandwidth.

The bytes of most kernels of a step grow linearly with the context. So a few steps are predicted, and those
between them are interpolated linearly; where the middle of a span is off its chord, the span is halved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from archcli.arith import Number
from archcli.graph import OpClass, Row, StateKind
from archcli.measure.memory.engine import EngineName
from archcli.measure.memory.plan import Plan
from archcli.measure.memory.settings import FP8, MemorySettings
from archcli.measure.predict.communication.collective import Exposed
from archcli.measure.predict.constants import Efficiency, Entry
from archcli.measure.predict.live import LiveServer
from archcli.measure.predict.prediction import Prediction, predict_pass
from archcli.measure.predict.rank.kernels import CacheReads, CacheUse
from archcli.measure.predict.rank.rank_times import TimingDevice
from archcli.measure.predict.rank.rows import PredictedRow
from archcli.measure.predict.times import PRODUCTS, Seconds
from archcli.modules import Model


class Engine(NamedTuple):
    """The tokens a second of an engine over those of its kernels alone: expected, and the range.

    `source` says where the factor is from. `live` are constants of live servers, whose batches change from
    step to step; None for batches that begin and end together.
    """

    label: str
    speed: float
    low: float
    high: float
    source: str
    live: LiveServer | None = None


LIVE = "live servers"
KERNELS = Engine("kernels alone", 1.0, 1.0, 1.0, "kernels one after the other, and nothing else")
ENGINES: Mapping[EngineName, Engine] = {
    **dict.fromkeys(("none", "transformers", "mlx"), KERNELS),
    "vllm": Engine(
        "vLLM", 0.941, 0.941, 0.941, LIVE, LiveServer(0.071, 0.0145, 0.79, 1.16, 0.72, 1.52, 0.134)
    ),
    "trtllm": Engine(
        "TensorRT-LLM", 0.988, 0.988, 0.988, LIVE, LiveServer(0.071, 0.0874, 0.74, 1.24, 0.58, 2.13, 0.145)
    ),
    "sglang": Engine(
        "SGLang", 0.924, 0.924, 0.924, LIVE, LiveServer(0.46, 0.051, 0.68, 1.17, 0.17, 1.24, 0.115)
    ),
    "llamacpp": Engine("llama.cpp", 1.0, 1.0, 1.0, "its constants are of whole runs"),
}
"""Factors by name, fitted by benchmarks/fit_serving.py."""
FIXED_BATCH = Engine(
    "TensorRT-LLM",
    1.0,
    0.88,
    1.0,
    "0.88 to 1.00 of what its kernels allow; a batch of fixed size has no scheduler",
)
"""Engines of 2023, which read a cache once per query head, in batches that begin and end together."""


def engine_of(name: EngineName, reads: CacheReads) -> Engine:
    """The engine of a name; that of a cache read once per query head is older."""
    return FIXED_BATCH if name != "none" and reads == "heads" else ENGINES[name]


def with_engine(seconds: Seconds, engine: Engine) -> Seconds:
    """The seconds of an engine; the floor stays that of the kernels.

    The range is that of its live servers, without these that of the kernels.
    """
    if not seconds.is_calibrated:
        return seconds
    floor, expected, low, high, _ = seconds
    if engine.live is None:
        # the fastest engine has the shortest time
        return Seconds(
            floor, expected / engine.speed, low / engine.high, high / engine.low, is_calibrated=True
        )
    return engine.live.of_token(floor, expected / engine.speed)


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


class BreakEven(NamedTuple):
    """The break-even points of one rank that decodes; None where there is none.

    `floor_batch` is by the peaks alone, `batch` by the share of them that matrix products reach; `context`
    are tokens of each sequence.
    """

    floor_batch: float | None
    batch: float | None
    context: int | None


def break_even(
    rows: Sequence[Row], batch_size: int, widths: tuple[float, float], device: TimingDevice, dtype: str
) -> BreakEven:
    """The break-even points of one rank that decodes; `rows` are those of a context beyond all windows.

    `widths`: bytes of a weight and of a cached number.
    """
    weights, flops = _products(rows)
    if not weights or not flops:
        return BreakEven(None, None, None)
    rates, constants = device.clock.rates, device.clock.efficiency.products(dtype)
    batch = (widths[0] * weights / rates.bandwidth) / (flops / batch_size / rates.peak(dtype))
    # b F / (P compute) = W / (B memory)
    reached = None if constants is None else batch * constants.compute / constants.memory
    return BreakEven(batch, reached, _context(rows, widths[0] * weights / widths[1]))


def _products(rows: Iterable[Row]) -> tuple[float, float]:
    """(numbers of all matrices that products read, FLOPs of these products)."""
    weights: Number = 0
    flops: Number = 0
    for row in rows:
        of_row = sum(part.flops for part in row.parts if part.op_class is OpClass.CONTRACTION)
        if row.weights and of_row:
            experts = row.experts.n_experts if row.experts else 1
            weights += row.unit_params * row.times * experts
            flops += of_row * row.times
    return float(weights), float(flops)


def _context(rows: Iterable[Row], weights: float) -> int | None:
    """Tokens of each sequence at which all caches hold as many numbers as the weights; None for never."""
    growing, fixed, bounded = 0.0, 0.0, []
    for row in rows:
        for state in row.states:
            elements = float(state.elements * row.times)
            if state.kind is StateKind.TOKENS:
                growing += elements / float(state.tokens)
            elif state.kind is StateKind.WINDOW:
                bounded.append((float(state.tokens), elements / float(state.tokens)))
            else:
                fixed += elements
    left = weights - fixed - sum(tokens * per_token for tokens, per_token in bounded)
    if left <= 0:
        return 0
    return round(left / growing) if growing else None


OFF_THE_CHORD = 1e-3
"""Part of a step's seconds by which the middle of a span may lie off its chord."""
MOST_HALVINGS = 6
PredictStep = Callable[[int], Prediction]
"""Predicts one decoded token of each sequence, given the tokens before it."""


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
    as long as one of them.
    """

    whole: Prediction
    first_token: Seconds
    per_token: Seconds


def serve(
    model: Model,
    settings: MemorySettings,
    new: int,
    device: TimingDevice,
    plan: Plan,
    use: CacheUse,
    engine: Engine = ENGINES["none"],
) -> ServedTokens:
    """Predict B = `batch_size` sequences of `seq_len` tokens, and `new` more of each.

    One prefill, then a step for each new token. Raises ArchError as `predict_pass` does.
    """
    prompt = int(settings.tokens(model))

    def step(past: int) -> Prediction:
        return predict_pass(model, replace(settings, phase="decode", seq_len=past), device, plan, use)

    def prefilled(asked: MemorySettings) -> Prediction:
        return predict_pass(model, replace(asked, phase="prefill", seq_len=prompt), device, plan, use)

    prefill = prefilled(settings)
    alone = prefill if settings.batch_size == 1 else prefilled(settings.alone())
    first = prefill.seconds._replace(floor=alone.seconds.floor, low=alone.seconds.low)
    steps = spanned(step, prompt, prompt + new - 1)
    parts = [("prefill", WeightedStep(1.0, prefill)), *(("decode", step) for step in steps)]
    whole = joined(parts, int(settings.batch_size) * new, engine)
    per_token = added(steps, 1 / new)
    if engine.live is None or not per_token.is_calibrated:
        return ServedTokens(whole, with_engine(first, engine), with_engine(per_token, engine))
    others = int(plan.of_replica(settings).batch_size) - 1
    # the rest of the others' prefills; no floor of them: there may be no other sequence
    late = alone.seconds._replace(floor=0.0).scaled((1 - engine.live.waits) * others / new)
    before = alone.seconds.expected * (1 + engine.live.waits * others) + steps[0].step.seconds.expected
    first = engine.live.of_first(alone.seconds.floor, before / engine.speed)
    per_token = with_engine(per_token.plus(late), engine)
    seconds = first.plus(per_token.scaled(new))
    # the floor is that of the kernels of all sequences
    floor = whole.seconds.floor
    seconds = seconds._replace(floor=floor, low=max(floor, seconds.low))
    return ServedTokens(whole._replace(seconds=seconds), first, per_token)


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
    """All parts as one prediction of so many tokens; the `stage` of a row is the name of its part."""
    steps = [step for _, step in parts]
    first = steps[0].step
    sums = {
        name: sum(weight * getattr(step, name) for weight, step in steps)
        for name in ("bubble_s", "model_flops", "executed_flops")
    }
    return first._replace(
        seconds=with_engine(added(steps), engine),
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
            scaled = row.scaled(weight)._replace(stage=name)
            key = (name, row.path, row.kernel, row.bound_by)
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
