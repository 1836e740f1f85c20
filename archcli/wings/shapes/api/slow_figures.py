"""Figures of memory and of time in a sweep, each read of one candidate at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from archcli.arith import Number
from archcli.errors import ArchError
from archcli.measure.report import Unit
from archcli.modules import Model
from archcli.modules.spec.calls import accept
from archcli.modules.spec.values import ValueType, accepted
from archcli.modules.stored.formats import is_format
from archcli.wings.serving.api.memory import MemoryOptions
from archcli.wings.serving.api.plan_options import PlanOptions
from archcli.wings.serving.memory.answers.question import MemoryQuestion, check_question
from archcli.wings.serving.memory.plan import Plan
from archcli.wings.shapes.symbolic.shapes.figures import Reading, Settings, SweepFigure

OF_PLAN = {name: known for name, known in accepted(PlanOptions).items() if name != "plan"}
ANSWERED = {
    *("alternatives", "calibrate", "curve", "fit", "grid", "memory", "plan", "price_per_hour", "prices"),
    "tokens",
}
"""Options of memory and predict that change the answer, and not the bytes or the time of a pass."""
OF_MEMORY = {name: known for name, known in accepted(MemoryOptions).items() if name not in ANSWERED}


def _memory(total: Callable[[MemoryQuestion], int]) -> Callable[[Reading, Settings], int]:
    def read(reading: Reading, settings: Settings) -> int:
        question = _memory_options(settings, reading.model).question(reading.model)
        check_question(question)
        return total(question)

    return read


def _memory_options(settings: Settings, model: Model | str = "") -> MemoryOptions:
    return MemoryOptions(model, **settings)


def _plan(settings: Settings) -> Plan:
    return Plan(**{name: accept(name, settings[name], OF_PLAN) for name in settings if name in OF_PLAN})


def _check_memory(settings: Settings) -> None:
    memory_settings = _memory_options(settings).settings()
    if not is_format(memory_settings.dtype):
        _ = memory_settings.width  # refuses a type that torch computes nothing in
    _plan(settings)


def _peak(question: MemoryQuestion) -> int:
    return question.answer().peak_bytes


def _needed(question: MemoryQuestion) -> int:
    return question.answer().needed_bytes


def _kept(question: MemoryQuestion) -> int:
    return int(question.answer().largest.kept)


def _time(reading: Reading, settings: Settings) -> float:
    seconds: float = _prediction(reading.model, settings).seconds.expected
    return seconds


def _rate(reading: Reading, settings: Settings) -> float:
    rates = _prediction(reading.model, settings).tokens_per_s
    # a device without fitted constants has a floor alone
    rate: float = rates["floor"] if rates["expected"] is None else rates["expected"]
    return rate


def _prediction(model: Model, settings: Settings) -> Any:
    from archcli.wings.serving.api.predict import PredictOptions, predict_question
    from archcli.wings.serving.predict.answers.question import check_prediction

    question = predict_question(model, PredictOptions(model, **settings))
    check_prediction(question)
    check_question(question.memory())
    return question.answer().prediction


def _check_time(settings: Settings) -> None:
    from archcli.wings.serving.api.known_device.known import known_device
    from archcli.wings.serving.api.predict import PredictOptions

    if "device" not in settings:
        raise ArchError("a time is that of a device", "such as time(device=h100-sxm)")
    options = PredictOptions("", **settings)  # of whichever model
    # each of these raises what is wrong with its part
    options.settings(), options.beyond(), known_device(options.device).timed
    _plan(settings)


def _tokens(model: Model, settings: Settings) -> dict[str, Number]:
    return {"seq_len": _memory_options(settings).settings().tokens(model)}


def _predicted_tokens(model: Model, settings: Settings) -> dict[str, Number]:
    from archcli.wings.serving.api.predict import PredictOptions

    options = PredictOptions(model, **settings)
    return {"past" if options.phase == "decode" else "seq_len": options.settings().tokens(model)}


def _of_memory(name: str, total: Callable[[MemoryQuestion], int]) -> SweepFigure:
    return SweepFigure(name, "bytes", lambda: OF_MEMORY, _memory(total), True, _check_memory, _tokens)


def _of_time(name: str, unit: Unit, read: Callable[[Reading, Settings], float]) -> SweepFigure:
    return SweepFigure(name, unit, _settings_of_time, read, True, _check_time, _predicted_tokens)


def _settings_of_time() -> Mapping[str, ValueType]:
    from archcli.wings.serving.api.predict import PredictOptions  # of times alone

    return {name: known for name, known in accepted(PredictOptions).items() if name not in ANSWERED}


SLOW = (
    _of_memory("kept_bytes", _kept),
    _of_memory("peak_bytes", _peak),
    _of_memory("needed_bytes", _needed),
    _of_time("time", "seconds", _time),
    _of_time("tokens_per_s", "number", _rate),
)
"""Figures of `archcli memory` and `archcli predict` by name."""
