"""A model measured by kinds of layer (--per-kind) or cut (--layers), and the machine's ceilings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from archcli.api.asking.subject import Subject
from archcli.api.profiling.settings import (
    Detail,
    RunSettings,
    available,
    cache_bytes,
    check_positions,
    pass_memory,
)
from archcli.errors import ArchError, sanitize
from archcli.load.ceilings import SEPARATOR, CeilingsKey, ceilings_file, kept_ceilings
from archcli.measure.passes import Pass, checked_pass
from archcli.measure.profile.extrapolate.kinds import cut, depth
from archcli.measure.profile.extrapolate.plan import MemoryLimits, SmallStack, StackPlan, plan_of
from archcli.measure.profile.extrapolate.recording import extrapolated
from archcli.measure.profile.quality import is_disturbed
from archcli.measure.profile.reports.by_kind import by_kind
from archcli.measure.profile.reports.one import profile_of
from archcli.measure.report import Report
from archcli.modules import Model
from archcli.modules.spec.request import Request
from archcli.recording.disturbance import ProcessorTimes, disturbance, processor_times
from archcli.recording.machine import Ceilings, processor
from archcli.recording.recording import Recording
from archcli.render.screen import Tick, progress
from archcli.render.write import remember, tell


def machine_ceilings(recording: Recording, settings: RunSettings, tick: Tick) -> Ceilings | None:
    """The ceilings for this dtype and number of threads; None where not asked for, or interrupted."""
    if not settings.ceilings or recording.partial:
        return None
    file, key = ceilings_file(), _key(recording, settings)
    kept = kept_ceilings(file)
    if key in kept and not settings.refresh:
        return kept[key]
    from archcli.runtime.dtypes import DTYPES
    from archcli.runtime.profile.ceilings import measure_ceilings

    tick("measuring what this machine can do", 0, 1)
    before = processor_times()
    ceilings = measure_ceilings(settings.dtype, DTYPES[settings.dtype], settings.device)
    if not is_disturbed(recording) and not is_disturbed(_with_disturbance_since(recording, before)):
        remember(file, kept | {key: ceilings})  # those of a disturbed machine are too low
    return ceilings


def _with_disturbance_since(recording: Recording, before: ProcessorTimes) -> Recording:
    """The recording with the disturbance since `before` in place of that of its passes."""
    times, processors = processor_times().since(before), recording.disturbance.processors
    return replace(recording, disturbance=disturbance([times], [times.wall_s], processors))


def _key(recording: Recording, settings: RunSettings) -> str:
    """The key under which the ceilings of this machine, dtype, device and torch are kept."""
    machine = recording.machine
    versions = [machine["torch"], *(machine[name] for name in ("CUDA", "fp32 products") if name in machine)]
    return CeilingsKey(
        processor(),
        str(machine["processor"]),
        str(machine["threads"]),
        settings.dtype,
        settings.device,
        SEPARATOR.join(map(str, versions)),
    ).text


MOST_PAIRS = 50
"""Pairs of passes of a stack, where time allows: errors of a slope are multiplied by the number of layers."""


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


def plan_stacks(
    subject: Subject, counted: Pass, request: Request, settings: RunSettings, *, per_kind: bool
) -> StackPlan | None:
    """The stacks to measure in place of the model; None if it fits into memory and not `per_kind`.

    Raises ArchError for what fits in no form.
    """
    check_positions(counted)
    if settings.compile and not per_kind:
        return None  # it is measured itself, or refused for want of memory

    def memory(model: Model) -> dict[str, int]:
        return pass_memory(model, request, settings)

    room, needed = available(settings), memory(subject.model)["needed_bytes"]
    if not per_kind and (room is None or needed <= room):
        return None
    _check_divisible(subject, counted, settings)
    limits = MemoryLimits(
        lambda model: checked_pass(model, request), memory, settings.dtype, room, cache_bytes(settings)
    )
    plan = plan_of(subject.name, subject.model, counted, limits)
    if per_kind:
        return plan
    sizes = f"needs about {needed / 2**30:,.1f} GiB, of which {(room or 0) / 2**30:,.1f} GiB are available"
    reason = f"{subject.name} in {settings.dtype} {sizes}: measured by kinds of layer."
    tell(sanitize(reason))
    return replace(plan, reason=reason)


def _check_divisible(subject: Subject, counted: Pass, settings: RunSettings) -> None:
    """Raise ArchError for settings that do not allow measuring by kinds of layer."""
    if settings.compile:
        raise ArchError(
            "--compile is of the whole model, as kernels reach across layers; --per-kind takes it apart",
            "leave one of them out, or give --layers in place of --per-kind",
        )
    if settings.trace:
        raise ArchError(
            "--trace is of one pass of the whole model, which is measured by kinds of layer here",
            "leave it out, or give --layers",
        )
    if counted.phase == "train" and subject.model.mtp_depth:
        raise ArchError(
            "layers that predict further tokens are not measured by kinds",
            "--set mtp=null trains without them",
        )


def profile_by_kind(
    subject: Subject,
    counted: Pass,
    plan: StackPlan,
    settings: RunSettings,
    inputs: dict[str, Any],
    detail: Detail,
) -> tuple[Report, Recording]:
    """The extrapolated report, and the recording that it is made from."""
    recordings, ceilings = _measure(subject, plan, settings)
    recording = extrapolated(plan, recordings)
    report = profile_of(subject.model, counted, recording, inputs, *detail, ceilings)
    return by_kind(report, plan, recordings), recording


def _measure(
    subject: Subject, plan: StackPlan, settings: RunSettings
) -> tuple[dict[str, Recording], Ceilings | None]:
    """A recording of each stack by its name. Imports torch."""
    try:
        from archcli.runtime.profile import machine

        title = f"profiling {subject.name} by kinds of layer"
        with progress(title) as tick, machine.threads(settings.threads):
            recordings = dict(_stack_recordings(plan, settings, tick))
            # a slope needs two depths of every kind, so a part of the stacks says nothing of the whole
            if any(stack.name not in recordings for stack in plan.stacks()):
                raise KeyboardInterrupt  # noqa: TRY301
            return recordings, machine_ceilings(recordings[plan.ends.name], settings, tick)
    except KeyboardInterrupt:
        tell("interrupted before every kind of layer was measured")
        raise


def _stack_recordings(plan: StackPlan, settings: RunSettings, tick: Tick) -> Iterator[tuple[str, Recording]]:
    """(name, recording) of each stack until an interrupt; one stack is in memory at a time."""
    from archcli.runtime.profile.machine import release_memory

    for stack in plan.stacks():
        recording = _recorded(stack, settings, tick)
        release_memory()
        yield stack.name, recording
        if recording.partial:
            return


def _recorded(stack: SmallStack, settings: RunSettings, tick: Tick) -> Recording:
    from archcli.runtime.profile import record, work

    def tick_stack(what: str, done: int, total: int) -> None:
        tick(f"{stack.name}, {what}", done, total)

    tick_stack("building", 0, 1)
    prepared = work.prepare(stack.model, stack.counted.request, settings.build(stack.distinct))
    return record.record(
        prepared,
        settings.device,
        settings.pairs,
        tick_stack,
        hide_launch=settings.hide_launch,
        most=MOST_PAIRS,
    )
