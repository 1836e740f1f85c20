"""Workloads: what papers measured, by the names that MODEL takes: how it was run, and what a profile of it shows besides."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, NamedTuple

from archcli.errors import ArchError
from archcli.measure.passes import Pass, Phase
from archcli.measure.profile.ivanov import with_table
from archcli.measure.report import Report

if TYPE_CHECKING:
    from archcli.recording.recording import Recording


class Workload(NamedTuple):
    """The options it is run with unless others are given, and its own tables in front of a report."""

    phase: Phase = "forward"
    batch_size: int = 1
    seq_len: int = 128
    attention: Literal["sdpa", "eager"] = "sdpa"
    shown: Callable[[Report, Pass, Recording], Report] | None = None

    def report(self, report: Report, counted: Pass, recording: Recording) -> Report:
        """The report with the tables that the workload has of its own."""
        return report if self.shown is None else self.shown(report, counted, recording)


MODEL = Workload()
"""Any model: no paper's."""
WORKLOADS = {"ivanov": Workload("train", 8, 512, "eager", with_table)}


def workload_of(model: str, *, compiled: bool = False) -> Workload:
    """What MODEL names on the command line. Raises ArchError where its table is of operators run one by one, and it is to be compiled."""
    if compiled and model in WORKLOADS:
        raise ArchError(
            f"the table of {model} is of operators that run one by one",
            "leave --compile out, or name another model",
        )
    return WORKLOADS.get(model, MODEL)
