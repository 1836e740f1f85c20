"""Figures of a sweep that are read of one candidate at a time: those of memory and of predict."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from archcli.arith import Number
from archcli.commands._arguments import record_of
from archcli.errors import ArchError
from archcli.measure.memory.answers.question import MemoryQuestion, check_question
from archcli.measure.memory.plan import Plan
from archcli.measure.memory.settings import MemorySettings
from archcli.measure.report import Unit
from archcli.measure.symbolic.shapes.figures import Reading, Settings, SweepFigure
from archcli.modules import Model
from archcli.modules.spec.arguments import accept

DEGREES = tuple(Plan().inputs())
OF_MEMORY = tuple(MemorySettings.__dataclass_fields__)
OF_TIME = (
    *("device", "phase", "batch_size", "seq_len", "past", "new", "source_len", "dtype", "attention"),
    *("backend", "compiled", "recompute", "grad_accum", "engine", "kv_read"),
)


def _memory(total: Callable[[MemoryQuestion], int]) -> Callable[[Reading, Settings], int]:
    def read(reading: Reading, settings: Settings) -> int:
        plan = record_of(Plan, settings)
        question = MemoryQuestion(reading.model, record_of(MemorySettings, settings), plan)
        check_question(question)
        return total(question)

    return read


def _check_memory(settings: Settings) -> None:
    _ = record_of(MemorySettings, settings).width  # refuses a type that torch computes nothing in
    _check_plan(settings)


def _check_plan(settings: Settings) -> None:
    for name in DEGREES:
        if name in settings:
            accept(name, settings[name])


def _peak(question: MemoryQuestion) -> int:
    return question.answer().peak_bytes


def _needed(question: MemoryQuestion) -> int:
    return question.answer().needed_bytes


def _kept(question: MemoryQuestion) -> int:
    return int(question.answer().largest.traced.ledger.kept)


def _time(reading: Reading, settings: Settings) -> float:
    from archcli.measure.predict.prediction import told  # of predictions alone

    return told(_prediction(reading.model, settings).time)


def _rate(reading: Reading, settings: Settings) -> float:
    rates = _prediction(reading.model, settings).tokens_per_s
    rate: float = rates["floor"] if rates["expected"] is None else rates["expected"]
    return rate


def _prediction(model: Model, settings: Settings) -> Any:
    from archcli.commands._asked_time import AskedTime, asked_question
    from archcli.measure.predict.answers.question import check_prediction

    question = asked_question(model, record_of(AskedTime, settings), record_of(Plan, settings))
    check_prediction(question)
    check_question(question.memory())
    return question.answer().prediction


def _check_time(settings: Settings) -> None:
    from archcli.commands._asked_time import AskedTime
    from archcli.commands._device import predicted_device

    if "device" not in settings:
        raise ArchError("a time is that of a device", "such as time(device=h100-sxm)")
    asked = record_of(AskedTime, settings)
    asked.settings(), asked.beyond(), predicted_device(asked.device)
    _check_plan(settings)


def _tokens(model: Model, settings: Settings) -> dict[str, Number]:
    return {"seq_len": record_of(MemorySettings, settings).tokens(model)}


def _asked_tokens(model: Model, settings: Settings) -> dict[str, Number]:
    from archcli.commands._asked_time import AskedTime

    asked = record_of(AskedTime, settings)
    return {"past" if asked.phase == "decode" else "seq_len": asked.settings().tokens(model)}


def _of_memory(name: str, total: Callable[[MemoryQuestion], int]) -> SweepFigure:
    options = (*OF_MEMORY, *DEGREES)
    return SweepFigure(name, "bytes", options, _memory(total), True, _check_memory, _tokens)


def _of_time(name: str, unit: Unit, read: Callable[[Reading, Settings], float]) -> SweepFigure:
    return SweepFigure(name, unit, (*OF_TIME, *DEGREES), read, True, _check_time, _asked_tokens)


SLOW = (
    _of_memory("kept_bytes", _kept),
    _of_memory("peak_bytes", _peak),
    _of_memory("needed_bytes", _needed),
    _of_time("time", "seconds", _time),
    _of_time("tokens_per_s", "number", _rate),
)
"""Figures of `archcli memory` and `archcli predict` by name."""
