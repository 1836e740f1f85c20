"""Compare measured and predicted seconds of a profiled pass, by class of operation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from archcli.measure.report import Column, Table
from archcli.wings.serving.launches.kernel import KernelRun
from archcli.wings.serving.predict.constants import FRAMEWORK
from archcli.wings.serving.predict.rank.kernels import operation_calls
from archcli.wings.serving.predict.times import KernelClock, Seconds
from archcli.wings.serving.recorded.classes import COMMUNICATION, UNATTRIBUTED, label_of
from archcli.wings.serving.recorded.schema.records import PredictedClass

WHOLE, COMPUTING = "whole pass", "all but communication"
BESIDE = f"{FRAMEWORK} + {UNATTRIBUTED}"
"""The class of all time outside of kernels: measured as two classes, predicted as one."""
COLUMNS = (
    Column("class", "class"),
    Column("measured_s", "measured", "seconds"),
    Column("floor_s", "limit", "seconds"),
)
OF_CONSTANTS = (
    Column("expected_s", "expected", "seconds"),
    Column("low_s", "low", "seconds"),
    Column("high_s", "high", "seconds"),
    Column("expected_over_measured", "expected / measured", "ratio"),
)
NONE = Seconds()


def seconds_by_class(kernels: Iterable[KernelRun], clock: KernelClock, phase: str) -> dict[str, Seconds]:
    """Predicted seconds of a pass by class, with those of the framework where its constants are known."""
    # read twice: operation_calls below would get an empty iterator
    kernels = [*kernels]
    predicted: dict[str, Seconds] = {}
    for run in kernels:
        of_run = clock.time(run.kernel, run.op_class).seconds.scaled(run.times)
        predicted[str(run.op_class)] = predicted.get(str(run.op_class), NONE).plus(of_run)
    if clock.efficiency.memory_bound(FRAMEWORK) is not None:
        for call in operation_calls(kernels, phase):
            of_call = clock.time(call.kernel, call.op_class).seconds.scaled(call.times)
            predicted[BESIDE] = predicted.get(BESIDE, NONE).plus(of_call)
    return predicted


def compared(measured: Mapping[str, float], predicted: Mapping[str, Seconds]) -> list[PredictedClass]:
    """A record for each class that takes time, the slowest first, and one for the whole pass.

    Without constants, among them those of the framework, `predicted` holds floors alone.
    """
    seconds = {name: s for name, s in measured.items() if s and name not in {FRAMEWORK, UNATTRIBUTED}}
    seconds |= {name: 0.0 for name in predicted if name not in seconds}
    # measured apart, predicted as one
    seconds[BESIDE] = sum(measured.get(name, 0.0) for name in (FRAMEWORK, UNATTRIBUTED))
    calibrated, whole = BESIDE in predicted, NONE
    for of_class in predicted.values():
        whole = whole.plus(of_class)
    records = [
        _record(name, seconds[name], predicted.get(name), calibrated=calibrated)
        for name in sorted(seconds, key=lambda name: -seconds[name])
    ]
    sent = seconds.get(COMMUNICATION, 0.0)
    total = _record(COMPUTING if sent else WHOLE, sum(seconds.values()) - sent, whole, calibrated=calibrated)
    return [*records, total]


def _record(name: str, measured_s: float, seconds: Seconds | None, *, calibrated: bool) -> PredictedClass:
    expected = seconds if calibrated else None
    return {
        "class": name,
        "measured_s": measured_s,
        "floor_s": (seconds or NONE).floor,
        "expected_s": expected and expected.expected,
        "low_s": expected and expected.low,
        "high_s": expected and expected.high,
        "expected_over_measured": expected.expected / measured_s if expected and measured_s > 0 else None,
    }


def against_table(records: list[PredictedClass]) -> Table:
    """Measured and predicted seconds; without constants the floor alone."""
    shown: list[Mapping[str, Any]] = [{**record, "class": label_of(record["class"])} for record in records]
    calibrated = records[-1]["expected_s"] is not None
    kind = "expected" if calibrated else "limit, as no constants of this machine are given"
    columns = (*COLUMNS, *OF_CONSTANTS) if calibrated else COLUMNS
    return Table(f"Measured beside predicted ({kind})", columns, shown[:-1], shown[-1])
