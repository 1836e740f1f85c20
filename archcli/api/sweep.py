"""sweep: `archcli sweep` in Python, and figures of shapes that a caller lists."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, overload

from archcli.api.arguments import checked, record_of
from archcli.api.subject import given
from archcli.arith import Number
from archcli.errors import ArchError
from archcli.measure.memory.answers.question import MemoryQuestion, check_question
from archcli.measure.memory.plan import Plan
from archcli.measure.memory.settings import MemorySettings
from archcli.measure.report import Report, Unit
from archcli.measure.symbolic.shapes.figures import Reading, Settings, SweepFigure
from archcli.measure.symbolic.sweep import Sweep
from archcli.modules import Model
from archcli.modules.spec.arguments import ARGUMENTS, CountedPairs, ModelLike, accept
from archcli.modules.spec.request import ABOVE_0
from archcli.modules.spec.values import Refusal, ValueType, refused, value_type

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
    from archcli.api.predict import AskedTime, asked_question
    from archcli.measure.predict.answers.question import check_prediction

    question = asked_question(model, record_of(AskedTime, settings), record_of(Plan, settings))
    check_prediction(question)
    check_question(question.memory())
    return question.answer().prediction


def _check_time(settings: Settings) -> None:
    from archcli.api.device import predicted_device
    from archcli.api.predict import AskedTime

    if "device" not in settings:
        raise ArchError("a time is that of a device", "such as time(device=h100-sxm)")
    asked = record_of(AskedTime, settings)
    asked.settings(), asked.beyond(), predicted_device(asked.device)
    _check_plan(settings)


def _tokens(model: Model, settings: Settings) -> dict[str, Number]:
    return {"seq_len": record_of(MemorySettings, settings).tokens(model)}


def _asked_tokens(model: Model, settings: Settings) -> dict[str, Number]:
    from archcli.api.predict import AskedTime

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


def _values(value: Any) -> Any:
    return None if value is None else ARGUMENTS["values"].convert(value)


def _folder(value: Any) -> Path | None:
    if value is not None and not isinstance(value, str | PathLike):
        raise refused(value, "a folder")
    return None if value is None else Path(value)


def _texts(value: Any) -> tuple[str, ...]:
    """Several texts, or one."""
    if isinstance(value, str):
        return (value,)
    try:
        texts: tuple[str, ...] = ARGUMENTS["where"].convert(value)
    except Refusal:
        raise refused(value, "a list of texts") from None
    return texts


TEXTS = ValueType("a list of texts", _texts, {})
OWN = {
    "values": ValueType("a mapping from names", _values, {}),
    **dict.fromkeys(("vary", "tie", "where", "minimize", "maximize", "show"), TEXTS),
    "top": ABOVE_0,
    "check": value_type(bool),
    "write_yaml": ValueType("a folder", _folder, {}),
}
"""Values that names accept here beside those of all functions."""


@overload
def sweep(
    model: ModelLike,
    values: Mapping[str, Any],
    *,
    batch_size: int = 1,
    seq_len: int = 2048,
    mask: CountedPairs = "exact",
) -> Sweep: ...


@overload
def sweep(
    model: ModelLike,
    values: None = None,
    *,
    vary: str | Sequence[str] = (),
    tie: str | Sequence[str] = (),
    where: str | Sequence[str] = (),
    minimize: str | Sequence[str] = (),
    maximize: str | Sequence[str] = (),
    show: str | Sequence[str] = (),
    top: int = 20,
    check: bool = False,
    write_yaml: str | PathLike[str] | None = None,
) -> Report: ...


@checked(OWN)
def sweep(  # noqa: PLR0913
    model: ModelLike,
    values: Mapping[str, Any] | None = None,
    *,
    vary: str | Sequence[str] = (),
    tie: str | Sequence[str] = (),
    where: str | Sequence[str] = (),
    minimize: str | Sequence[str] = (),
    maximize: str | Sequence[str] = (),
    show: str | Sequence[str] = (),
    top: int = 20,
    check: bool = False,
    write_yaml: str | PathLike[str] | None = None,
    batch_size: int = 1,
    seq_len: int = 2048,
    mask: CountedPairs = "exact",
) -> Sweep | Report:
    """The shapes of an architecture that meet conditions: the report of `archcli sweep` (needs numpy).

    `vary` are texts such as "d_model=1024:8192:128", `tie` "d_ff=8/3*d_model@128", `where` "params in
    7e9±1%", `minimize`, `maximize` and `show` expressions on figures, as the options take them. `rows` are
    the `top` best, `totals` hold candidates and matching.

    With `values` instead, a mapping from sizes' names (`d_ff`, or a full path) to arrays [N] of whole numbers
    above 0, the parameters and FLOPs of a forward of these N shapes, whether they fit together or not.

    Example: `sweep("gpt2", {"d_ff": range(1024, 4097, 64)}).params[0]` is 86,666,496.
    """
    searched = {"vary": vary, "tie": tie, "where": where}
    searched |= {"minimize": minimize, "maximize": maximize, "show": show}
    if values is not None:
        from archcli.measure.symbolic.sweep import sweep as count

        stated = [name for name, texts in searched.items() if texts]
        if stated:
            raise ArchError(f"values and {stated[0]} are two sweeps", "leave one of them out")
        subject = given(model).model
        return count(subject, values, batch_size=batch_size, seq_len=seq_len, unmasked=mask == "dense")
    from archcli.api.sweep_question import AskedSweep, swept

    asked = AskedSweep(**searched, top=top, check=check)
    return swept(given(model), asked, folder=write_yaml)  # type: ignore[arg-type]
