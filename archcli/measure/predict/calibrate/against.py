"""Measured beside predicted: seconds of a profiled pass by class of operation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from archcli.kernels import KernelRun
from archcli.measure.predict.rank.seconds import Seconds
from archcli.measure.predict.rank.times import LAUNCH
from archcli.measure.predict.times import FRAMEWORK, KernelClock
from archcli.measure.profile.schema.prediction import PredictedClass
from archcli.measure.report import Column, Table
from archcli.recording.classes import TimeClass, label_of

WHOLE = "whole pass"
COLUMNS = (
    Column("class", "class"),
    Column("measured_s", "measured", "seconds"),
    Column("floor_s", "floor", "seconds"),
)
OF_CONSTANTS = (
    Column("expected_s", "expected", "seconds"),
    Column("low_s", "low", "seconds"),
    Column("high_s", "high", "seconds"),
    Column("expected_over_measured", "expected / measured", "ratio"),
)


def seconds_by_class(kernels: Iterable[KernelRun], clock: KernelClock) -> dict[str, Seconds]:
    """Predicted seconds of a pass by class; the framework's among them where its constant is known."""
    kernels = [*kernels]
    found: dict[str, Seconds] = {}
    for run in kernels:
        of_run = Seconds.of(clock.time(run.kernel, run.op_class)).scaled(run.times)
        found[str(run.op_class)] = found.get(str(run.op_class), Seconds()).plus(of_run)
    if clock.efficiency.memory_bound(FRAMEWORK) is not None:
        launch = Seconds.of(clock.time(LAUNCH, TimeClass.FRAMEWORK))
        found[str(TimeClass.FRAMEWORK)] = launch.scaled(sum(run.times for run in kernels))
    return found


def compared(
    measured: Mapping[str, float], predicted: Mapping[str, Seconds], *, calibrated: bool
) -> list[PredictedClass]:
    """A record for each class that takes time, the slowest first, and one of the whole pass."""
    names = [
        name for name in dict.fromkeys((*measured, *predicted)) if measured.get(name) or name in predicted
    ]
    names.sort(key=lambda name: -measured.get(name, 0.0))
    whole = Seconds()
    for seconds in predicted.values():
        whole = whole.plus(seconds)
    of_classes = [
        _record(name, measured.get(name, 0.0), predicted.get(name, Seconds()), calibrated=calibrated)
        for name in names
    ]
    return [*of_classes, _record(WHOLE, sum(measured.values()), whole, calibrated=calibrated)]


def _record(name: str, measured_s: float, seconds: Seconds, *, calibrated: bool) -> PredictedClass:
    is_known = calibrated and measured_s > 0
    return {
        "class": name,
        "measured_s": measured_s,
        "floor_s": seconds.floor,
        "expected_s": seconds.expected if calibrated else None,
        "low_s": seconds.low if calibrated else None,
        "high_s": seconds.high if calibrated else None,
        "expected_over_measured": seconds.expected / measured_s if is_known else None,
    }


def against_table(records: list[PredictedClass], *, calibrated: bool) -> Table:
    """Measured and predicted seconds; without constants the floor alone."""
    shown: list[Mapping[str, Any]] = [{**record, "class": label_of(record["class"])} for record in records]
    kind = "expected" if calibrated else "floor, as no constants of this machine are given"
    columns = (*COLUMNS, *OF_CONSTANTS) if calibrated else COLUMNS
    return Table(f"Measured beside predicted ({kind})", columns, shown[:-1], shown[-1])
