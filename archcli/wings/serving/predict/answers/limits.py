"""The limits of a prediction: its seconds by purpose, and the answer in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import fsum
from typing import Any, NamedTuple

from archcli.graph import Row, StateKind
from archcli.units import binary_bytes, three_figures, written_count
from archcli.wings.serving.memory.answers.headline import would_fit
from archcli.wings.serving.memory.answers.tables import (
    PHASES,
    device_in_words,
    engine_in_words,
    plan_in_words,
    stored_in_words,
)
from archcli.wings.serving.memory.answers.verdict import tight_note
from archcli.wings.serving.memory.plan import DEVICES_PER_NODE
from archcli.wings.serving.memory.settings import MemoryPhase, MemorySettings
from archcli.wings.serving.predict.answers.drafts import ROUND
from archcli.wings.serving.predict.answers.question import PredictQuestion, PredictSettings
from archcli.wings.serving.predict.answers.tables import kind_of_figures, to_four
from archcli.wings.serving.predict.communication.collective import ANY_NUMBER
from archcli.wings.serving.predict.prediction import Prediction
from archcli.wings.serving.predict.rank.rows import PredictedRow
from archcli.wings.serving.predict.times import ATTENTION, MOST_UNKNOWN, OF_ADAPTERS, PRODUCTS, kind_of

DEFAULTS, PREDICT_DEFAULTS = MemorySettings(), PredictSettings()


def title(question: PredictQuestion) -> str:
    """The question: `one decoded token each, 1 x 2,048 tokens in the cache, bf16, on h100-sxm`."""
    return ", ".join(_parts(question))


def _by_trainer(question: PredictQuestion) -> Iterator[str]:
    """How a trainer, or a compiler, runs the kernels."""
    trainer = question.settings.trainer
    if question.timed != question.settings:
        yield f"computed in {question.timed.dtype} by autocast"
    if question.options.compiled:
        yield "compiled" if trainer is None or not trainer.fuses else "fused kernels"


def _parts(question: PredictQuestion) -> Iterator[str]:
    settings, predicted = question.settings, question.options
    yield PHASES[question.phase]
    tokens = f"{settings.batch_size:,} x {settings.tokens(question.model):,} tokens"
    more = f" and {predicted.new:,} more" if question.phase == "serve" else ""
    if settings.past:
        more = f" behind {settings.past:,}"
    yield tokens + (" in the cache" if question.phase == "decode" else more)
    yield stored_in_words(question.model, settings.dtype, question.native)
    for name in ("optimizer", "attention", "backend", "recompute", "grad_accum"):
        value = getattr(settings, name)
        if value != getattr(DEFAULTS, name):
            yield f"{name.replace('_', ' ')} {value}"
    if settings.gradients is not None:
        yield f"gradients in {settings.gradients}"
    if question.phase == "train" and settings.offload is not None:
        yield settings.offload.in_words
    yield from _by_trainer(question)
    if question.draft is not None:
        yield question.draft.in_words
    if question.caches:
        yield from _of_engine(question)
    if question.plan.devices > 1:
        yield plan_in_words(question.plan)
    yield f"on {_devices(question)}"


def _of_engine(question: PredictQuestion) -> Iterator[str]:
    """The engine, its cache, and the part of the model in RAM."""
    settings, predicted = question.settings, question.options
    timed_as = question.device.timed_as
    yield engine_in_words(settings) + (f" of {timed_as}" if timed_as else "")
    if predicted.kv_read != PREDICT_DEFAULTS.kv_read:
        yield "cache read once per query head"
    if predicted.kv_dtype is not None:
        yield f"cache in {predicted.kv_dtype}"
    if settings.offload is not None:
        yield settings.offload.in_words
    if settings.engine and settings.engine.adapters:
        yield f"adapters {settings.engine.adapters}"


def _devices(question: PredictQuestion) -> str:
    """The devices that the plan uses: `8 x h100-sxm`."""
    return device_in_words(question.device.memory._replace(n_devices=question.plan.devices))


def misfit(question: PredictQuestion, totals: Mapping[str, Any]) -> Iterator[str]:
    """A sentence before the times of a model that does not fit, or of sequences that wait; else none."""
    batch_size = question.settings.batch_size
    running, ram = totals.get("at_once", batch_size), totals.get("offload", {})
    queue = f"{running:,} of {batch_size:,} sequences run at once, and the rest wait."
    if not totals["fits"]:
        needed, there = (binary_bytes(totals[name]) for name in ("needed_bytes", "memory_bytes"))
        of_each = "each needs" if question.plan.devices > 1 else "needs"
        of_each = "one needs" if question.device.memory.unlike else of_each
        if totals["needed_bytes"] <= totals["memory_bytes"] and ram:
            needed, there = (binary_bytes(ram[name]) for name in ("ram_bytes", "ram_limit_bytes"))
            of_each = "RAM needs"
        so = queue if running < batch_size else "all times are as if it did."
        yield f"Does not fit into {_devices(question)} ({of_each} {needed}, has {there}); {so}"
    elif running < batch_size:
        yield queue


def misfit_hints(question: PredictQuestion, totals: Mapping[str, Any]) -> Iterator[str]:
    """Of a model that is tight, what is left; of one that does not fit, what does and on how many devices."""
    if totals["verdict"] == "tight":
        yield tight_note(question.memory(), question.memory().answer())
    if totals["change"] is not None:
        yield would_fit(totals["change"])
    if not totals["fits"]:
        options = f"--phase {question.phase} --device {question.device.name} --fit devices"
        name = question.model.name
        yield f"It does not fit: `archcli memory {name} {options}` says how many devices would do."


def sequences(question: PredictQuestion) -> str:
    """The number of sequences: `1 sequence`; of a training step those of all replicas."""
    number = int(question.settings.batch_size)
    if question.phase == "train":
        number *= question.plan.dp * question.plan.micro_batches * question.settings.grad_accum
    return f"{number:,} sequence{'' if number == 1 else 's'}"


SENDING, WAITING, ENGINE = "communication between devices", "waiting for other stages", "the engine"
LAUNCHING, HOSTED = "launching kernels", "waiting for the host to launch kernels"
OF_PRODUCTS = {
    "compute": "computing matrix products",
    "memory": "reading the weights",
    "cache": "reading the weights",
    "ram": "reading weights in RAM",
}
OF_ATTENTION = {
    "compute": "computing attention",
    "memory": "reading the KV cache",
    "cache": "reading the KV cache",
    "ram": "reading the KV cache in RAM",
}
OF_CACHE, OF_STATES = "copying the KV cache", "updating the recurrent state"
COPYING, STEPPING = "copying between RAM and the device", "the optimizer's step in RAM"
BESIDE = {"launch": LAUNCHING, "host": HOSTED, "bus": COPYING}
"""What takes the time beside kernels, by what limits it."""
OF_OTHERS = "reading and writing activations"
UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))


class Limit(NamedTuple):
    """A purpose, such as reading the weights, and the seconds spent on it."""

    what: str
    seconds: float

    def record(self, total: float) -> dict[str, object]:
        """The limit by JSON's keys, with its share of the total."""
        return {"what": self.what, "time_s": self.seconds, "share": self.seconds / total}


def of_states(rows: Iterable[Row]) -> dict[str, str]:
    """The purpose of the kernels of each row with a cache or a recurrent state, by path."""
    kinds = {row.path: {state.kind for state in row.states} for row in rows if row.states}
    return {path: OF_STATES if StateKind.FIXED in of_row else OF_CACHE for path, of_row in kinds.items()}


def limits(prediction: Prediction, cached: Mapping[str, str]) -> list[Limit]:
    """The seconds by purpose, the most first; `cached` are the purposes of rows with states (`of_states`)."""
    seconds: dict[str, float] = {}
    for what, spent in _spent(prediction, cached):
        seconds[what] = seconds.get(what, 0.0) + spent
    # not sum: from Python 3.12 on it rounds less, and the digits are to be the same on every Python
    rest = prediction.seconds.expected - fsum(seconds.values())
    # less than that is what rounding leaves of the sums
    if rest > 1e-9 * prediction.seconds.expected:
        seconds[ENGINE] = rest
    by_time = sorted(seconds.items(), key=lambda pair: -pair[1])
    return [Limit(what, spent) for what, spent in by_time if spent]


def _spent(prediction: Prediction, cached: Mapping[str, str]) -> Iterator[tuple[str, float]]:
    for row in prediction.rows:
        yield _what(row, cached), row.seconds.expected
    yield SENDING, fsum(sent.least_s for sent in prediction.communication)
    yield WAITING, prediction.bubble_s


def beyond_limit(prediction: Prediction, cached: Mapping[str, str]) -> list[Limit]:
    """Expected seconds of kernels beyond their limit, by purpose, the most first."""
    seconds: dict[str, float] = {}
    for row in prediction.rows:
        what = _what(row, cached)
        seconds[what] = seconds.get(what, 0.0) + row.seconds.expected - row.seconds.floor
    return [
        Limit(what, more) for what, more in sorted(seconds.items(), key=lambda pair: -pair[1]) if more > 0
    ]


def _what(row: PredictedRow, cached: Mapping[str, str]) -> str:
    kind, bound_by = kind_of(row.op_class, row.kernel), row.bound_by
    if bound_by in BESIDE:
        return BESIDE[bound_by]
    if row.stage == "update" and bound_by == "ram":
        return STEPPING
    if kind == PRODUCTS:
        # products of the backward read activations and gradients, too
        reads_none = row.stage not in {"forward", "decode", "prefill", *ROUND} and bound_by != "compute"
        return OF_OTHERS if reads_none else OF_PRODUCTS[bound_by]
    if kind == ATTENTION:
        return OF_ATTENTION[bound_by]
    return OF_ADAPTERS if kind == OF_ADAPTERS else cached.get(row.path, OF_OTHERS)


def duration(seconds: float) -> str:
    """`562 ms`: a duration to three figures."""
    size, unit = _unit(seconds)
    return f"{three_figures(seconds / size)} {unit}"


def _unit(seconds: float) -> tuple[float, str]:
    return next(((size, unit) for size, unit in UNITS if seconds >= size), UNITS[-1])


def in_one_unit(part: float, whole: float, between: str = " of ") -> str:
    """`35 of 40 ms`: two durations to three figures, in the unit of the second."""
    size, unit = _unit(whole)
    return f"{three_figures(part / size)}{between}{three_figures(whole / size)} {unit}"


def sentence(question: PredictQuestion, by_time: list[Limit], totals: Mapping[str, Any]) -> str:
    """The answer in words: tokens a second, and the purpose that takes the most time.

    `Decoding 1 sequence: 47.8 tokens/s (41.4 to 53.6); 13.0 of 20.9 ms go into reading the weights.`
    """
    largest, kind = by_time[0], kind_of_figures(totals)
    total = totals["time_s"][kind]
    most = "" if largest.seconds > total / 2 else ", more than into anything else"
    spent = f"{in_one_unit(largest.seconds, total)} go into {largest.what}{most}"
    limit = f" ({why_limit(question, totals)}, so this is an upper limit)" if kind == "floor" else ""
    doing, rate = DOING[question.settings.phase], rate_in_words(totals["tokens_per_s"])
    return f"{doing} {sequences(question)}: {rate}; {spent}{limit}."


def headline(question: PredictQuestion, totals: Mapping[str, Any]) -> str:
    """The answer in one line: explanations of a measured time, days and cost, the plan, or the speed."""
    if "explained" in totals:
        return "\n".join(totals["explained"]["lines"])
    parts = [totals["sentence"]]
    if totals.get("fit") and totals["fit"]["plan"]:
        parts.insert(0, f"{totals['fit']['plan']['options']} is the fastest plan that fits.")
    if "training" in totals:
        first = " ".join(misfit(question, totals))
        step = totals["sentence"].removeprefix(first).lstrip()
        parts = [first, _whole_training(question, totals["training"]), *parts[:-1], step]
    elif "cost" in totals:
        price = totals["cost"]["per_million_tokens"][kind_of_figures(totals)]
        currency = f" {question.priced['currency']}" if question.priced else ""
        parts.append(f"A million tokens cost {three_figures(price)}{currency}.")
    return " ".join(filter(None, parts))


def _whole_training(question: PredictQuestion, training: Mapping[str, Any]) -> str:
    """`30.2 days (25.4 to 33.6) and 116,100 for 1T tokens on 64 x h100-sxm`."""
    days, cost = training["days"], training["cost"]
    known = {name: three_figures(value) for name, value in days.items() if value is not None}
    if "expected" in known:
        time, price = (
            f"{known['expected']} days ({known['low']} to {known['high']})",
            cost and cost["expected"],
        )
    else:
        time, price = f"at least {known['floor']} days", cost and cost["floor"]
    paid = "" if price is None else f" and {to_four(price):,}"
    return f"{time}{paid} for {written_count(training['tokens'])} tokens on {_devices(question)}."


def rate_in_words(rates: Mapping[str, float | None]) -> str:
    """`16.8 tokens/s (13.9 to 20.1)`, `at most 21.9 tokens/s`, or that nothing is known."""
    known = {name: three_figures(to_four(rate)) for name, rate in rates.items() if rate is not None}
    if "expected" in known:
        return f"{known['expected']} tokens/s ({known['low']} to {known['high']})"
    return f"at most {known['floor']} tokens/s" if known else "a speed that is not known"


DOING: dict[MemoryPhase, str] = {
    "train": "A training step of",
    "forward": "A forward pass of",
    "prefill": "Prefill of",
    "decode": "Decoding",
    "serve": "Serving",
}
UNMEASURED = "no measurements of this device"
MOSTLY_UNMEASURED = f"kernels without measurements take more than {MOST_UNKNOWN:.0%} of the time"
OF_NETWORK = "Other traffic on the network: constants are of two to eight machines that ran nothing else."
NOT_STATED = {
    "network": "What devices send between machines: network not stated, as --network 400Gb/s would.",
    "link": "What devices send each other: link not stated, as link_gb_s of a YAML would.",
}
"""What a limit leaves out where the rate of a link is not known."""


def why_limit(question: PredictQuestion, totals: Mapping[str, Any]) -> str:
    """Why a limit is all that is known."""
    if question.unknown_link:
        return f"{question.unknown_link} not stated"
    sequences = int(question.settings.batch_size)
    if not question.is_timed(queues=totals.get("at_once", sequences) < sequences):
        return f"no measurements of {question.engine_title} with such a model and load on such a device"
    known = question.timing.has_constants(question.timed.dtype)
    return MOSTLY_UNMEASURED if known else UNMEASURED


def of_machines(question: PredictQuestion) -> Iterator[str]:
    """What is not known of the links of the plan's devices."""
    n, fabric = question.plan.devices, question.device.timing.fabric
    if question.unknown_link:
        yield NOT_STATED[question.unknown_link]
    elif DEVICES_PER_NODE < n <= fabric.devices_per_node and fabric.devices_per_node == ANY_NUMBER:
        yield f"The network between machines: {n:,} cards are taken as in one; --nodes says otherwise."


def nodes_record(question: PredictQuestion) -> dict[str, Any]:
    """The machines of a plan of several: devices in each, and the network between them."""
    fabric = question.device.timing.fabric
    if question.plan.devices <= fabric.devices_per_node:
        return {}
    return {"devices_per_node": fabric.devices_per_node, "network_gb_s": fabric.network_gb_s}
