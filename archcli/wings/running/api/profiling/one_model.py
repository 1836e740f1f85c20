"""The profile of one model: counted, checked, timed and reported."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from archcli.api.asking.subject import Subject
from archcli.errors import ArchError
from archcli.measure.notes import form_notes, media_records, other_form_notes, source_notes
from archcli.measure.passes import Pass, checked_pass
from archcli.measure.report import Report
from archcli.modules import Model
from archcli.modules.spec.request import Request
from archcli.render.screen import progress
from archcli.render.write import tell
from archcli.wings.running.api.profiling.settings import (
    Detail,
    RunSettings,
    check_memory,
    check_positions,
    check_shares,
    lacks_memory,
    machine_ceilings,
    needed_memory,
)
from archcli.wings.running.profile.reports.one import profile_of
from archcli.wings.running.recording.recording import Recording
from archcli.wings.serving.memory.beyond.timed_run import require_memory
from archcli.wings.serving.predict.calibrate.cut import cut, depth
from archcli.wings.serving.recorded.machine import Ceilings


def cut_to(subject: Subject, layers: int | None, *, per_kind: bool) -> Subject:
    """The model cut to the first layers of each stack, with a note of it in its name."""
    if layers is None:
        return subject
    if per_kind:
        raise ArchError(
            "--layers and --per-kind are two ways to take less than all layers", "leave one of them out"
        )
    whole = depth(subject.model)
    if layers >= whole:
        raise ArchError(
            f"{subject.name} has {whole} layers, of which --layers {layers} leaves out none",
            "leave --layers out, or give fewer",
        )
    name = f"{subject.name} (cut to {layers} of {whole} layers)"
    return subject._replace(model=cut(subject.model, layers), name=name)


def profile_model(
    subject: Subject,
    request: Request,
    settings: RunSettings,
    detail: Detail,
    *,
    layers: int | None,
    per_kind: bool,
) -> tuple[Report, Recording]:
    """Measure a pass of a model: its report, and the recording behind it.

    layers: those that the model was cut to. per_kind: measure each kind of layer in a stack of its own.
    With ranks it is the report of all of them, and every rank but the first ends here.
    """
    if settings.launch is not None:
        from archcli.wings.running.api.profiling.ranks import profile_ranks  # of several processes alone

        return profile_ranks(subject, request, settings, detail, settings.launch, layers=layers)
    check_shares(subject.model, request)
    counted = checked_pass(subject.model, request)
    inputs = {**counted.inputs(), **settings.inputs(), "layers": layers}
    check_positions(counted)
    memory = needed_memory(subject.model, counted, settings)
    # compiled, it is measured whole, or refused for want of memory
    takes_apart = layers is None and not settings.compile and _has_kinds(subject.model, request)
    is_beyond = takes_apart and lacks_memory(memory, settings)
    if per_kind or is_beyond:
        from archcli.wings.running.api.profiling.by_kind import profile_by_kind  # of models taken apart

        needed = None if per_kind else memory["needed_bytes"]
        report, recording = profile_by_kind(
            subject, counted, request, settings, inputs, detail, needed=needed
        )
    else:
        check_memory(subject.name, memory, settings)
        recording, ceilings = _measure(subject, counted, settings, memory)
        report = profile_of(subject.model, counted, recording, inputs, *detail, ceilings)
    totals = {**report.totals, "memory": memory, **_media(subject.model, request)}
    model, notes = {"name": subject.name, "source": subject.source}, _notes(subject.model, request, counted)
    return replace(report, model=model, totals=totals, notes=(*notes, *report.notes)), recording


def _notes(model: Model, request: Request, counted: Pass) -> Iterator[str]:
    yield from source_notes(model, request.source_len)
    yield from form_notes([model], request.forms)
    yield from other_form_notes(model, counted.request, counted.flops()[0])


def _has_kinds(model: Model, request: Request) -> bool:
    """Whether a pass is of one model's layers: not of towers beside a language model, nor of a projector."""
    return not request.in_prompt and model.family == Model.family


def _media(model: Model, request: Request) -> dict[str, Any]:
    return {"media": media_records(model, request.media)} if request.in_prompt else {}


def _measure(
    subject: Subject, counted: Pass, settings: RunSettings, memory: dict[str, int]
) -> tuple[Recording, Ceilings | None]:
    """Build the model, time the pass, and measure the machine. Imports torch."""
    try:
        from archcli.wings.running.runtime.profile import machine, record, work

        work.check_device(settings.device)
        if settings.compile:
            from archcli.wings.running.runtime.profile import compiled

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
