"""`--per-kind` and `--layers`: profile a large model by its kinds of layer, and extrapolate."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from archcli.api.asking.subject import Subject
from archcli.errors import ArchError, sanitize
from archcli.measure.passes import Pass, checked_pass
from archcli.measure.report import Report
from archcli.modules.spec.request import Request
from archcli.render.screen import Tick, progress
from archcli.render.write import tell
from archcli.units import gib
from archcli.wings.running.api.profiling.settings import (
    Detail,
    RunSettings,
    available,
    cache_bytes,
    machine_ceilings,
    pass_memory,
)
from archcli.wings.running.profile.extrapolate.plan import MemoryLimits, SmallStack, StackPlan, plan_of
from archcli.wings.running.profile.extrapolate.recording import extrapolated
from archcli.wings.running.profile.reports.by_kind import by_kind
from archcli.wings.running.profile.reports.one import profile_of
from archcli.wings.running.recording.recording import Recording
from archcli.wings.serving.recorded.machine import Ceilings

MOST_PAIRS = 50
"""Pairs of passes of a stack, if time allows: an error of a slope is multiplied by the layers."""


def _plan(
    subject: Subject, counted: Pass, request: Request, settings: RunSettings, needed: int | None
) -> StackPlan:
    """The small stacks to measure in place of the model. Raises ArchError if none fits into memory."""
    _check_divisible(subject, counted, settings)
    room = available(settings)
    limits = MemoryLimits(
        lambda model: checked_pass(model, request),
        lambda model: pass_memory(model, request, settings),
        settings.dtype,
        room,
        cache_bytes(settings),
    )
    plan = plan_of(subject.name, subject.model, counted, limits)
    if needed is None:
        return plan
    sizes = f"needs about {gib(needed)}, of which {gib(room or 0)} are available"
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
    request: Request,
    settings: RunSettings,
    inputs: dict[str, Any],
    detail: Detail,
    *,
    needed: int | None,
) -> tuple[Report, Recording]:
    """The extrapolated report, and the recording that it is made from.

    needed: bytes of a model that does not fit; None with --per-kind.
    """
    plan = _plan(subject, counted, request, settings, needed)
    recordings, ceilings = _measure(subject, plan, settings)
    recording = extrapolated(plan, recordings)
    report = profile_of(subject.model, counted, recording, inputs, *detail, ceilings)
    return by_kind(report, plan, recordings), recording


def _measure(
    subject: Subject, plan: StackPlan, settings: RunSettings
) -> tuple[dict[str, Recording], Ceilings | None]:
    """A recording of each stack by its name. Imports torch."""
    try:
        from archcli.wings.running.runtime.profile import machine

        title = f"profiling {subject.name} by kinds of layer"
        with progress(title) as tick, machine.threads(settings.threads):
            recordings = dict(_stack_recordings(plan, settings, tick))
            # a slope needs two depths of every kind: some of the stacks give no result
            if any(stack.name not in recordings for stack in plan.stacks()):
                raise KeyboardInterrupt  # noqa: TRY301
            return recordings, machine_ceilings(recordings[plan.ends.name], settings, tick)
    except KeyboardInterrupt:
        tell("interrupted before every kind of layer was measured")
        raise


def _stack_recordings(plan: StackPlan, settings: RunSettings, tick: Tick) -> Iterator[tuple[str, Recording]]:
    """(name, recording) of each stack until an interrupt; one stack is in memory at a time."""
    from archcli.wings.running.runtime.profile.machine import release_memory

    for stack in plan.stacks():
        recording = _recorded(stack, settings, tick)
        release_memory()
        yield stack.name, recording
        if recording.partial:
            return


def _recorded(stack: SmallStack, settings: RunSettings, tick: Tick) -> Recording:
    from archcli.wings.running.runtime.profile import record, work

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
