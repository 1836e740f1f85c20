"""`archcli profile --vs`: variants built side by side, timed in turn, and compared with the first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from archcli.measure.notes import form_notes, source_notes
from archcli.measure.passes import Pass, checked_pass
from archcli.measure.report import Report
from archcli.modules.spec.request import Request
from archcli.render.screen import Tick, progress
from archcli.render.write import tell
from archcli.wings.running.api.profiling.settings import Detail, check_pass
from archcli.wings.running.api.profiling.vs_changes import RequestedVariant
from archcli.wings.running.profile.reports.variants import MeasuredVariant, parameter_notes
from archcli.wings.running.profile.reports.versus import versus
from archcli.wings.running.recording.recording import Timing
from archcli.wings.serving.memory.beyond.timed_run import require_memory
from archcli.wings.serving.recorded.machine import available_memory

SHARED = ("activations_bytes", "torch_bytes")
"""Memory that variants share, as their passes run one after another."""


def compare(variants: Sequence[RequestedVariant], request: Request, detail: Detail) -> Report:
    """Count every variant, check that all can run side by side, and time them in turn."""
    base = variants[0]
    passes = [checked_pass(variant.subject.model, request) for variant in variants]
    pairs = list(zip(variants, passes, strict=True))
    memory = _joint_memory(
        [
            check_pass(variant.subject.name, variant.subject.model, counted, variant.settings)
            for variant, counted in pairs
        ]
    )
    if base.settings.device == "cpu":
        _require(variants, memory, available_memory())
    timings = _timed(pairs, memory)
    measured = [
        _measured(base, variant, counted, timing)
        for (variant, counted), timing in zip(pairs, timings, strict=True)
    ]
    inputs = {
        **passes[0].inputs(),
        **base.settings.inputs(),
        "vs": [variant.text for variant in variants[1:]],
    }
    report = versus(measured, inputs, *detail)
    return replace(report, totals={**report.totals, "memory": memory})


def _measured(
    base: RequestedVariant, variant: RequestedVariant, counted: Pass, timing: Timing
) -> MeasuredVariant:
    model = variant.subject.model
    notes = [*source_notes(model, counted.source_len), *form_notes([model], counted.request.forms)]
    if variant is not base:
        notes += [*variant.subject.notes, *parameter_notes(base.subject.model, model)]
    return MeasuredVariant(
        variant.letter,
        variant.text,
        model,
        counted,
        variant.settings.dtype,
        timing,
        variant.changes,
        tuple(notes),
    )


def _joint_memory(needs: Sequence[dict[str, int]]) -> dict[str, int]:
    """Memory of all variants at once: the sum of weights, gradients and caches."""
    parts = {
        key: (max if key in SHARED else sum)(need[key] for need in needs)
        for key in needs[0]
        if key != "needed_bytes"
    }
    return {**parts, "needed_bytes": sum(parts.values())}


def _require(variants: Sequence[RequestedVariant], memory: dict[str, int], available: int | None) -> None:
    name = f"all {len(variants)} variants of {variants[0].subject.name}"
    require_memory(name, memory, available, variants[0].settings.dtype)


def _timed(pairs: Sequence[tuple[RequestedVariant, Pass]], memory: dict[str, int]) -> list[Timing]:
    """Build all variants and time them in turn. Imports torch."""
    variants = [variant for variant, _ in pairs]
    base, settings = variants[0], variants[0].settings
    try:
        from archcli.wings.running.runtime.profile import compiled, machine, work
        from archcli.wings.running.runtime.profile import variants as in_turn

        work.check_device(settings.device)
        if any(variant.settings.compile for variant in variants):
            compiled.check_compiler(settings.device)
        if settings.device != "cpu":
            _require(variants, memory, work.free_memory(settings.device))
        title = f"profiling {len(variants)} variants of {base.subject.name}"
        with progress(title) as tick, machine.threads(settings.threads):
            ready = []
            for i, (variant, counted) in enumerate(pairs):
                tick("building and warming up", i, len(pairs))
                ready.append(_timed_variant(variant, counted, tick))
            return in_turn.record_variants(ready, settings.pairs, tick)
    except KeyboardInterrupt:
        tell("interrupted before the first round of passes was timed")
        raise


def _timed_variant(variant: RequestedVariant, counted: Pass, tick: Tick) -> Any:
    from archcli.wings.running.runtime.profile import compiled, work
    from archcli.wings.running.runtime.profile import variants as in_turn

    settings = variant.settings
    prepared = work.prepare(variant.subject.model, counted.request, settings.build())
    if settings.compile:

        def tick_variant(what: str, done: int, total: int) -> None:
            tick(f"{variant.letter}: {what}", done, total)

        return compiled.timed_compiled_variant(prepared, settings.device, tick_variant)
    return in_turn.timed_variant(prepared, settings.device, hide_launch=settings.hide_launch)
