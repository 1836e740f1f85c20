"""`--against-prediction`: what `archcli predict` says of the same pass on this machine, by class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from archcli.errors import ArchError
from archcli.graph.kept import Backend
from archcli.measure.report import Report
from archcli.modules import Model
from archcli.modules.request import Request

REFUSED = {
    "vs": "--vs",
    "compiled": "--compile",
    "per_kind": "--per-kind",
    "repeat_process": "--repeat-process",
    "no_ceilings": "--no-ceilings",
}
"""Options of a profile that is not one whole pass, operation by operation, or that has no floor."""


def check_against(options: Mapping[str, Any]) -> None:
    """Raise ArchError, before anything is measured, for options that a prediction cannot stand beside."""
    if not options["against_prediction"]:
        if options["calibrate"]:
            raise ArchError("--calibrate is for a prediction", "add --against-prediction")
        return
    given = [option for name, option in REFUSED.items() if options[name]]
    given += [f"--{name}" for name in ("tp", "dp") if options[name] > 1]
    if given:
        what = f"--against-prediction is of one whole pass in one process, and {given[0]} is not"
        raise ArchError(what, f"leave {given[0]} out")


def against_prediction(
    report: Report, model: Model, request: Request, calibrations: Sequence[Path]
) -> Report:
    """The report with measured and predicted seconds side by side, as far as the pass was measured whole."""
    ceilings, inputs = report.totals["ceilings"], report.inputs
    if ceilings is None or report.totals["extrapolated"]:
        note = "No prediction stands beside a pass that was not measured whole."
        return replace(report, notes=(*report.notes, note))
    from archcli.commands._calibration import calibrated, kernels_of
    from archcli.commands._local import NO_CONSTANTS, local_rates
    from archcli.measure.predict.calibrate.against import against_table, compared, seconds_by_class
    from archcli.measure.predict.times import KernelClock

    backend: Backend = "cpu" if inputs["device"] == "cpu" else "cuda"
    name, dtype = f"this machine ({inputs['device']})", inputs["dtype"]
    clock = KernelClock(local_rates(name, {dtype: ceilings}, backend), NO_CONSTANTS)
    if calibrations:
        clock = calibrated(calibrations, name, backend, local_rates)
    predicted = seconds_by_class(kernels_of(model, request, inputs), clock)
    measured = {name: figures["seconds"] for name, figures in report.totals["by_class"].items()}
    records = compared(measured, predicted, calibrated=bool(calibrations))
    table = against_table(records, calibrated=bool(calibrations))
    return replace(report, totals={**report.totals, "prediction": records}, tables=(*report.tables, table))
