"""The profile of one model: counted, checked, timed and reported."""

from __future__ import annotations

from dataclasses import replace

from archcli.api.asking.subject import Subject
from archcli.api.profiling.by_kind import machine_ceilings, plan_stacks, profile_by_kind
from archcli.api.profiling.settings import Detail, RunSettings, check_pass, check_shares, needed_memory
from archcli.measure.memory.timed_run import require_memory
from archcli.measure.notes import form_notes, other_form_notes, source_notes
from archcli.measure.passes import Pass, checked_pass
from archcli.measure.profile.reports.one import profile_of
from archcli.measure.profile.workloads import Workload
from archcli.measure.report import Report
from archcli.modules.spec.request import Request
from archcli.recording.machine import Ceilings
from archcli.recording.recording import Recording
from archcli.render.screen import progress
from archcli.render.write import tell


def profile_model(
    subject: Subject,
    request: Request,
    settings: RunSettings,
    workload: Workload,
    detail: Detail,
    *,
    layers: int | None,
    per_kind: bool,
) -> tuple[Report, Recording]:
    """The report of a model, and the recording that it is made from.

    `layers` is how many layers the model was cut to; with `per_kind` it is measured by kinds of layer. With
    ranks the report is that of all, and ranks but the first end here.
    """
    if settings.launch is not None:
        from archcli.api.profiling.ranks import profile_ranks  # of several processes alone

        return profile_ranks(subject, request, settings, detail, settings.launch, layers=layers)
    check_shares(subject.model, request)
    counted = checked_pass(subject.model, request)
    inputs = {**counted.inputs(), **settings.inputs(), "layers": layers}
    plan = plan_stacks(subject, counted, request, settings, per_kind=per_kind) if layers is None else None
    if plan is None:
        recording, ceilings = _measure(
            subject, counted, settings, check_pass(subject.name, subject.model, counted, settings)
        )
        report = profile_of(subject.model, counted, recording, inputs, *detail, ceilings)
        report = workload.report(report, counted, recording)
    else:
        report, recording = profile_by_kind(subject, counted, plan, settings, inputs, detail)
    report = replace(
        report,
        model={"name": subject.name, "source": subject.source},
        totals={**report.totals, "memory": needed_memory(subject.model, counted, settings)},
        notes=(
            *source_notes(subject.model, request.source_len),
            *form_notes([subject.model], request.forms),
            *other_form_notes(subject.model, counted.request, counted.flops()[0]),
            *report.notes,
        ),
    )
    return report, recording


def _measure(
    subject: Subject, counted: Pass, settings: RunSettings, memory: dict[str, int]
) -> tuple[Recording, Ceilings | None]:
    """Build the model, time the pass, and measure the machine. Imports torch."""
    try:
        from archcli.runtime.profile import compiled, machine, record, work

        work.check_device(settings.device)
        if settings.compile:
            compiled.check_compiler(settings.device)
        if settings.device != "cpu":
            # free memory of a GPU is known only now; that of a CPU was checked before torch was imported
            require_memory(subject.name, memory, work.free_memory(settings.device), settings.dtype)
        with progress(f"profiling {subject.name}") as tick, machine.threads(settings.threads):
            tick("building", 0, 1)
            prepared = work.prepare(subject.model, counted.request, settings.build())
            name = subject.name if settings.trace else ""
            if settings.compile:
                recording = compiled.record_compiled(
                    prepared, settings.device, settings.pairs, tick, trace=name
                )
            else:
                recording = record.record(
                    prepared,
                    settings.device,
                    settings.pairs,
                    tick,
                    trace=name,
                    hide_launch=settings.hide_launch,
                )
            return recording, machine_ceilings(recording, settings, tick)
    except KeyboardInterrupt:
        tell("interrupted before the first pair of passes was timed")
        raise
