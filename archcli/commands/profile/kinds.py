"""`--per-kind` and `--layers`: a model too large for this machine, measured by kinds of layer or cut to some of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import typer

from archcli.commands.base import Subject
from archcli.commands.profile.measuring import (
    INTERRUPTED,
    How,
    available,
    ceilings_of,
    checked_positions,
    job_of,
)
from archcli.errors import ArchError
from archcli.measure.memory.estimate import memory_of
from archcli.measure.passes import Pass, checked_pass
from archcli.measure.profile.extrapolate.kinds import cut, depth
from archcli.measure.profile.extrapolate.plan import plan_of
from archcli.measure.profile.extrapolate.recording import extrapolated
from archcli.measure.profile.extrapolate.stacks import MemoryLimits, SmallStack, StackPlan
from archcli.measure.profile.reports.by_kind import by_kind
from archcli.measure.profile.reports.one import profile_of
from archcli.measure.report import Report
from archcli.modules.request import Request
from archcli.recording.machine import cache_size
from archcli.render.progress import Tick, progress

if TYPE_CHECKING:
    from archcli.recording.ceilings import Ceilings
    from archcli.recording.recording import Recording

Profiled = tuple[Report, "Recording"]
MOST_PAIRS = 50
"""Pairs of passes of a stack, where the time allows: what two stacks differ by is multiplied by the number of layers, its error as well."""
CACHE = 64 << 20
"""Bytes of cache to reckon with where the machine does not say."""


def cut_to(asked: Subject, layers: int | None, *, per_kind: bool) -> Subject:
    """The model with so many layers of each stack, and a name that says so."""
    if layers is None:
        return asked
    if per_kind:
        raise ArchError(
            "--layers and --per-kind are two ways to take less than all layers", "leave one of them out"
        )
    whole = depth(asked.model)
    if layers >= whole:
        raise ArchError(
            f"{asked.name} has {whole} layers, of which --layers {layers} leaves out none",
            "leave --layers out, or give fewer",
        )
    return asked._replace(
        model=cut(asked.model, layers), name=f"{asked.name} (cut to {layers} of {whole} layers)"
    )


def planned(asked: Subject, counted: Pass, request: Request, how: How, *, per_kind: bool) -> StackPlan | None:
    """The stacks to measure in place of the model; None where it is measured itself, as it fits and `per_kind` is not asked for.

    Raises ArchError for what fits in no way.
    """
    checked_positions(counted)

    def needs(counted: Pass) -> dict[str, int]:
        return memory_of(counted, how.dtype, how.attention)

    if how.compile and not per_kind:
        return None  # it is measured itself, or refused for want of memory
    room, needed = available(how), needs(counted)["needed_bytes"]
    if not per_kind and (room is None or needed <= room):
        return None
    if how.compile:
        hint = "leave one of them out, or give --layers in place of --per-kind"
        raise ArchError(
            "--compile is of the whole model, as kernels reach across layers; --per-kind takes it apart", hint
        )
    if how.trace:
        raise ArchError(
            "--trace is of one pass of the whole model, which is measured by kinds of layer here",
            "leave it out, or give --layers",
        )
    if counted.phase == "train" and getattr(asked.model, "mtp", None) is not None:
        raise ArchError(
            "layers that predict further tokens are not measured by kinds",
            "--set mtp=null trains without them",
        )
    limits = MemoryLimits(
        lambda model: checked_pass(model, request), needs, how.dtype, room, cache_size() or CACHE
    )
    plan = plan_of(asked.name, asked.model, counted, limits)
    if per_kind:
        return plan
    sizes = f"needs about {needed / 2**30:,.1f} GiB, of which {(room or 0) / 2**30:,.1f} GiB are available"
    reason = f"{asked.name} in {how.dtype} {sizes}: measured by kinds of layer."
    typer.echo(reason, err=True)
    return replace(plan, reason=reason)


def profiled_by_kind(
    asked: Subject, counted: Pass, plan: StackPlan, how: How, inputs: dict[str, Any], shown: tuple[int, int]
) -> Profiled:
    """The extrapolated report, to the depth and with the number of operators that are `shown`, and the recording it is of."""
    recordings, ceilings = measured_by_kind(asked, plan, how)
    recording = extrapolated(plan, recordings)
    report = profile_of(asked.model, counted, recording, inputs, *shown, ceilings)
    return by_kind(report, plan, recordings, cache_size() or CACHE), recording


def measured_by_kind(
    asked: Subject, plan: StackPlan, how: How
) -> tuple[dict[str, Recording], Ceilings | None]:
    """A recording of each stack by its name. Imports torch."""
    try:
        from archcli.runtime.profile import machine as profile_machine

        with (
            progress(f"profiling {asked.name} by kinds of layer") as tick,
            profile_machine.threads(how.threads),
        ):
            recordings = dict(_all_recorded(plan, how, tick))
            if any(small.name not in recordings for small in plan.stacks()):
                raise KeyboardInterrupt  # noqa: TRY301
            return recordings, ceilings_of(recordings[plan.ends.name], how, tick)
    except KeyboardInterrupt:
        typer.echo("interrupted before every kind of layer was measured", err=True)
        raise typer.Exit(INTERRUPTED) from None


def _all_recorded(plan: StackPlan, how: How, tick: Tick) -> Iterator[tuple[str, Recording]]:
    """(name, recording) of each stack until one is interrupted; built one after another, so that no two take memory."""
    from archcli.runtime.profile.machine import release_memory

    for small in plan.stacks():
        recording = _recorded(small, how, tick)
        release_memory()
        yield small.name, recording
        if recording.partial:
            return


def _recorded(small: SmallStack, how: How, tick: Tick) -> Recording:
    from archcli.runtime.profile import record as profile
    from archcli.runtime.profile import work as profile_work

    def told(what: str, done: int, total: int) -> None:
        tick(f"{small.name}, {what}", done, total)

    told("building", 0, 1)
    work = profile_work.prepare(small.model, job_of(small.counted, how, small.distinct))
    return profile.record(work, how.device, how.pairs, told, hide_launch=how.hide_launch, most=MOST_PAIRS)
