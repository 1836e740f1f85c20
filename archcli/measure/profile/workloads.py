"""Workloads: models that papers measured, by name, with their run options and their tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from archcli.errors import ArchError
from archcli.measure.passes import Pass
from archcli.measure.report import Report
from archcli.modules.spec.arguments import AttentionKernel
from archcli.modules.spec.request import Phase, Request
from archcli.recording.recording import Recording


class Workload(NamedTuple):
    """Default options of a run, and whether its report has the paper's tables."""

    phase: Phase = "forward"
    batch_size: int = 1
    seq_len: int = 128
    attention: AttentionKernel = "sdpa"
    has_tables: bool = False

    def request(
        self,
        phase: Phase | None,
        batch_size: int | None,
        seq_len: int | None,
        past: int | None,
        source_len: int | None,
        forms: Mapping[str, str] | None = None,
    ) -> Request:
        """The request for a pass; phase and sizes that are not given are those of the workload."""
        sizes = batch_size or self.batch_size, seq_len or self.seq_len, past, source_len
        return Request(phase or self.phase, *sizes, forms=forms or {}).resolved()

    def report(self, report: Report, counted: Pass, recording: Recording) -> Report:
        """The report with the paper's tables, where there are any."""
        if not self.has_tables:
            return report
        from archcli.measure.profile.ivanov import with_table  # of one workload alone

        return with_table(report, counted, recording)


MODEL = Workload()
"""The workload of a model that no paper measured."""
# batch and length of the paper's table 1; eager, as it has products and softmax apart
WORKLOADS = {"ivanov": Workload("train", 8, 512, "eager", has_tables=True)}


def workload_of(model: str, *, compiled: bool = False) -> Workload:
    """The workload named by MODEL. Raises ArchError for fused kernels, which its table has no row for."""
    if compiled and model in WORKLOADS:
        raise ArchError(
            f"the table of {model} is of operators that run one by one",
            "leave --compile out, or name another model",
        )
    return WORKLOADS.get(model, MODEL)
