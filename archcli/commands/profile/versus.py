"""`archcli profile --vs`: variants built side by side, timed in turn, reported against the first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import typer

from archcli.commands.profile.measuring import INTERRUPTED, checked, job_of
from archcli.commands.profile.variants import Asked
from archcli.measure.memory.estimate import require_memory
from archcli.measure.notes import source_notes
from archcli.measure.passes import Pass, checked_pass
from archcli.measure.profile.parameter_match import parameter_notes
from archcli.measure.profile.reports.versus import MeasuredVariant, versus
from archcli.measure.report import Report
from archcli.modules.request import Request
from archcli.recording.machine import available_memory
from archcli.render.progress import Tick, progress

if TYPE_CHECKING:
    from archcli.recording.recording import Timing

ONCE = ("activations_bytes", "torch_bytes")
"""What variants that run one after the other need but once."""


def compared(
    asked: Sequence[Asked], request: Request, inputs: dict[str, Any], depth: int, top: int
) -> Report:
    """Count every variant, refuse what cannot run, time them in turn."""
    passes = [checked_pass(one.subject.model, request) for one in asked]
    memory = _together(
        [checked(one.subject.name, counted, one.how) for one, counted in zip(asked, passes, strict=True)]
    )
    if asked[0].how.device == "cpu":
        require_memory(
            f"all {len(asked)} variants of {asked[0].subject.name}",
            memory,
            available_memory(),
            asked[0].how.dtype,
        )
    timings = _timed(asked, passes, memory)
    variants = [
        _variant(asked[0], one, counted, timing)
        for one, counted, timing in zip(asked, passes, timings, strict=True)
    ]
    sizes = passes[0].sizes() | {"vs": [one.text for one in asked[1:]]}
    report = versus(variants, inputs | sizes, depth, top)
    return replace(report, totals={**report.totals, "memory": memory})


def _variant(base: Asked, one: Asked, counted: Pass, timing: Timing) -> MeasuredVariant:
    notes = [
        *source_notes(one.subject.model, counted.source_len),
        *(one.subject.notes if one is not base else ()),
    ]
    notes += [] if one is base else parameter_notes(base.subject.model, one.subject.model)
    return MeasuredVariant(
        one.letter, one.text, one.subject.model, counted, one.how.dtype, timing, one.changes, tuple(notes)
    )


def _together(each: Sequence[dict[str, int]]) -> dict[str, int]:
    """The memory of all variants at once: their weights, gradients and caches side by side."""
    parts = {
        key: (max if key in ONCE else sum)(one[key] for one in each)
        for key in each[0]
        if key != "needed_bytes"
    }
    return {**parts, "needed_bytes": sum(parts.values())}


def _timed(asked: Sequence[Asked], passes: Sequence[Pass], memory: dict[str, int]) -> list[Timing]:
    name, how = asked[0].subject.name, asked[0].how
    try:
        from archcli.runtime.profile import compiled as profile_compiled
        from archcli.runtime.profile import machine as profile_machine
        from archcli.runtime.profile import variants as profile_variants
        from archcli.runtime.profile import work as profile_work

        profile_work.check_device(how.device)
        if any(one.how.compile for one in asked):
            profile_compiled.check_compiler(how.device)
        if how.device != "cpu":
            require_memory(
                f"all {len(asked)} variants of {name}",
                memory,
                profile_work.free_memory(how.device),
                how.dtype,
            )
        with (
            progress(f"profiling {len(asked)} variants of {name}") as tick,
            profile_machine.threads(how.threads),
        ):
            contenders = []
            for i, (one, counted) in enumerate(zip(asked, passes, strict=True)):
                tick("building and warming up", i, len(asked))
                work = profile_work.prepare(one.subject.model, job_of(counted, one.how))
                if one.how.compile:
                    contenders.append(profile_compiled.compiled_contender(work, how.device, _of(one, tick)))
                else:
                    contenders.append(
                        profile_variants.contender(work, how.device, hide_launch=how.hide_launch)
                    )
            return profile_variants.record_variants(contenders, how.pairs, tick)
    except KeyboardInterrupt:
        typer.echo("interrupted before the first round of passes was timed", err=True)
        raise typer.Exit(INTERRUPTED) from None


def _of(one: Asked, tick: Tick) -> Tick:
    """What is told of one variant."""
    return lambda what, done, total: tick(f"{one.letter}: {what}", done, total)
