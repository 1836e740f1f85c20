"""`archcli profile --vs CHANGE[,CHANGE]`: variants built side by side, timed in turn, and compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

import typer

from archcli.api.subject import INTERRUPTED, Subject, subject
from archcli.commands.profile.options import Dtype
from archcli.commands.profile.settings import Detail, RunSettings, check_pass
from archcli.errors import SET, ArchError, Problem
from archcli.load.yaml.writer import to_mapping
from archcli.measure.memory.timed_run import require_memory
from archcli.measure.notes import form_notes, source_notes
from archcli.measure.passes import Pass, checked_pass
from archcli.measure.profile.parameter_match import parameter_notes
from archcli.measure.profile.reports.variants import MeasuredVariant
from archcli.measure.profile.reports.versus import versus
from archcli.measure.profile.schema.versus import Setting
from archcli.measure.report import Report
from archcli.measure.survey.compare.differences import ModelSettings, differences
from archcli.modules.spec.arguments import AttentionKernel
from archcli.modules.spec.request import Request
from archcli.recording.machine import available_memory
from archcli.recording.recording import Timing
from archcli.render.screen import Tick, progress
from archcli.render.write import tell

OPENING, CLOSING, QUOTES = "[{(", ")}]", "'\""
SWITCH = {"true": True, "false": False}
RUN_CHANGES: dict[str, tuple[str, ...]] = {
    "attention": get_args(AttentionKernel),
    "dtype": get_args(get_args(Dtype)[0]),
    "compile": tuple(SWITCH),
}
"""Run settings that a variant may change, and their values."""
MOST_VARIANTS = 25  # the letters after A


@dataclass(frozen=True, slots=True)
class RequestedVariant:
    """A variant: its letter, the text of --vs, its architecture, its settings, and what they change."""

    letter: str
    text: str
    subject: Subject
    settings: RunSettings
    changes: tuple[Setting, ...] = ()


def requested_variants(
    model: str, overrides: Sequence[str] | None, settings: RunSettings, texts: Sequence[str]
) -> list[RequestedVariant]:
    """Variant A, the model unchanged, and the requested variants. ArchError with all problems."""
    if len(texts) > MOST_VARIANTS:
        what = f"{len(texts)} variants are too many"
        raise ArchError(Problem(what, f"at most {MOST_VARIANTS} at once", path="--vs"))
    base = RequestedVariant("A", "as it is", subject(model, overrides), settings)
    variants, problems = [base], list[Problem]()
    for i, text in enumerate(texts):
        try:
            variants.append(_variant(chr(ord("B") + i), text, model, list(overrides or ()), base))
        except ArchError as error:
            problems += [_renamed(problem) for problem in error.problems]
    if problems:
        raise ArchError(problems)
    return variants


def _variant(
    letter: str, text: str, model: str, overrides: list[str], base: RequestedVariant
) -> RequestedVariant:
    run_changes, fields = dict[str, Any](), list[str]()
    for item in split(text):
        key, _, value = item.partition("=")
        if key in RUN_CHANGES:
            run_changes[key] = _run_change(key, value)
        else:
            fields.append(item)
    settings = replace(base.settings, **run_changes)
    changed = subject(model, [*overrides, *fields]) if fields else base.subject
    changes = (*_changed_fields(base.subject, changed), *_changed_settings(base.settings, settings))
    if not changes:
        what, hint = "this variant is the model as it is", "name something that differs"
        raise ArchError(Problem(what, hint, path=f"--vs {text[:60]}"))
    return RequestedVariant(letter, text, changed, settings, changes)


def split(text: str) -> list[str]:
    """The changes of a variant, divided at commas or semicolons outside of brackets and quotes."""
    items, depth, quote = [""], 0, ""
    for char in text:
        quote = "" if char == quote else quote or (char if char in QUOTES else "")
        depth += 0 if quote else (char in OPENING) - (char in CLOSING)
        if char in ",;" and depth <= 0 and not quote:
            items.append("")
        else:
            items[-1] += char
    changes = [item.strip() for item in items]
    if not all(changes):
        hint = "such as --vs norm.kind=layernorm,d_ff=4096"
        raise ArchError(Problem("a change is missing", hint, path=f"--vs {text[:60]}"))
    return changes


def _run_change(key: str, value: str) -> str | bool:
    if value not in RUN_CHANGES[key]:
        what = f"{key} {value[:40]!r} is none of {', '.join(RUN_CHANGES[key])}"
        raise ArchError(Problem(what, path=f"--vs {key}={value[:40]}"))
    return SWITCH[value] if key == "compile" else value


def _changed_fields(base: Subject, changed: Subject) -> list[Setting]:
    """Fields stated for either of the two models whose values differ."""
    models = [ModelSettings(asked.model, to_mapping(asked.model)) for asked in (base, changed)]
    return [
        {"setting": field.path, "from": field.values[0] or "-", "to": field.values[1] or "-"}
        for field in differences(models)
    ]


def _changed_settings(base: RunSettings, changed: RunSettings) -> list[Setting]:
    values = [(key, _as_typed(getattr(base, key)), _as_typed(getattr(changed, key))) for key in RUN_CHANGES]
    return [{"setting": key, "from": old, "to": new} for key, old, new in values if old != new]


def _as_typed(value: str | bool) -> str:
    """A value as the command line writes it."""
    return next((word for word, switched in SWITCH.items() if switched is value), str(value))


def _renamed(problem: Problem) -> Problem:
    """An override's problem, renamed from --set to --vs."""
    mark = problem.mark
    if mark is None or mark.file != SET:
        return problem
    shift = len("--vs") - len(SET)
    text = mark.text.replace(SET, "--vs", 1)
    return replace(problem, mark=replace(mark, file="--vs", text=text, column=mark.column + shift))


SHARED = ("activations_bytes", "torch_bytes")
"""Memory that variants need only once, as their passes run one after another."""


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
        from archcli.runtime.profile import compiled, machine, work
        from archcli.runtime.profile import variants as in_turn

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
        raise typer.Exit(INTERRUPTED) from None


def _timed_variant(variant: RequestedVariant, counted: Pass, tick: Tick) -> Any:
    from archcli.runtime.profile import compiled, work
    from archcli.runtime.profile import variants as in_turn

    settings = variant.settings
    prepared = work.prepare(variant.subject.model, counted.request, settings.build())
    if settings.compile:
        return compiled.timed_compiled_variant(prepared, settings.device, _with_letter(variant, tick))
    return in_turn.timed_variant(prepared, settings.device, hide_launch=settings.hide_launch)


def _with_letter(variant: RequestedVariant, tick: Tick) -> Callable[[str, int, int], None]:
    return lambda what, done, total: tick(f"{variant.letter}: {what}", done, total)
