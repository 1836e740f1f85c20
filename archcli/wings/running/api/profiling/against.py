"""`--against-prediction`: compare a measured pass with its prediction on this machine, by class."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from archcli.errors import ArchError
from archcli.graph.kept import Backend
from archcli.measure.report import Report
from archcli.modules import Model
from archcli.modules.spec.request import Request
from archcli.wings.running.api.profiling.rank import RankLaunch
from archcli.wings.serving.recorded.classes import COMMUNICATION

if TYPE_CHECKING:
    from archcli.wings.serving.api.known_device.profiles import CalibratedClock

NOT_WHOLE = "No prediction stands beside a pass that was not measured whole."
NO_LINKS = "What ranks exchange is not predicted: the rate of links between them is not known."


class PassPrediction(NamedTuple):
    """The prediction of a measured pass: with fitted constants, else the floor alone."""

    calibrated: CalibratedClock | None

    @classmethod
    def of(cls, calibrations: Sequence[Path], device: str, dtype: str) -> PassPrediction:
        """The prediction by profiles of this machine, if there are any.

        Raises ArchError, before anything is measured, for profiles that are not of this device and dtype.
        """
        if not calibrations:
            return cls(None)
        from archcli.wings.serving.api.known_device.profiles import calibrated  # reads and fits profiles

        fitted = calibrated(calibrations, *_machine(device))
        # for its error: the profiles may have no peak of this dtype
        fitted.clock.rates.peak(dtype)
        return cls(fitted)

    def compared(self, report: Report, model: Model, request: Request, launch: RankLaunch | None) -> Report:
        """The report with measured and predicted seconds, if the pass was not extrapolated."""
        ceilings, inputs = report.totals["ceilings"], report.inputs
        if ceilings is None or report.totals["extrapolated"]:
            return replace(report, notes=(*report.notes, NOT_WHOLE))
        from archcli.wings.serving.api.known_device.profiles import NO_CONSTANTS, kernels_of
        from archcli.wings.serving.predict.calibrate.against import against_table, compared, seconds_by_class
        from archcli.wings.serving.predict.calibrate.calibration import local_rates
        from archcli.wings.serving.predict.times import KernelClock

        name, backend = _machine(inputs["device"])
        if self.calibrated is None:
            clock = KernelClock(local_rates(name, {inputs["dtype"]: ceilings}, backend), NO_CONSTANTS)
        else:
            clock = self.calibrated.clock
        try:
            kernels = kernels_of(*_of_rank(model, request, launch), inputs)
        except ArchError as error:
            return replace(report, notes=(*report.notes, f"No prediction: {error.problems[0].what}."))
        predicted = seconds_by_class(kernels, clock, request.phase)
        measured = {name: figures["seconds"] for name, figures in report.totals["by_class"].items()}
        records = compared(measured, predicted)
        return replace(
            report,
            totals={**report.totals, "prediction": records},
            tables=(*report.tables, against_table(records)),
            notes=(*report.notes, *self._notes(report)),
        )

    def _notes(self, report: Report) -> Iterator[str]:
        threads = report.totals["machine"].get("threads")
        if self.calibrated is not None and str(threads) != self.calibrated.threads:
            fitted = self.calibrated.threads
            yield f"Predicted by constants of {fitted} threads, and this pass ran on {threads}."
        if report.totals["by_class"].get(COMMUNICATION, {}).get("seconds"):
            yield NO_LINKS


def _machine(device: str) -> tuple[str, Backend]:
    """The name of a device of this machine, and its backend."""
    if device == "cpu":
        from archcli.wings.serving.recorded.machine import processor

        return processor() or "CPU", "cpu"
    from archcli.wings.serving.recorded.cuda_driver import local_gpus

    # `cuda` without a number is device 0
    number, gpus = int(device.partition(":")[2] or 0), local_gpus()
    return gpus[number].name if number < len(gpus) else device, "cuda"


def _of_rank(model: Model, request: Request, launch: RankLaunch | None) -> tuple[Model, Request]:
    """The first rank's share of the model, and its replica's part of the batch."""
    if launch is None:
        return model, request
    from archcli.modules.tensor_parallel.shard import shard
    from archcli.wings.running.api.profiling.ranks import batches  # of several processes alone

    return shard(model, launch.tp), batches(request, launch.dp)[0]
