"""Parsing of `--vs CHANGE[,CHANGE]`: changes to the architecture and to how it is run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

from archcli.api.asking.subject import Subject
from archcli.errors import SET, ArchError, Problem
from archcli.load.spec.written import to_mapping
from archcli.measure.survey.compare.differences import ModelSettings, differences
from archcli.modules.spec.arguments import AttentionKernel
from archcli.wings.running.api.profiling.settings import RunDtype, RunSettings
from archcli.wings.serving.recorded.schema.documents import Setting

OPENING, CLOSING, QUOTES = "[{(", ")}]", "'\""
SWITCH = {"true": True, "false": False}
RUN_CHANGES: dict[str, tuple[str, ...]] = {
    "attention": get_args(AttentionKernel),
    "dtype": get_args(RunDtype),
    "compile": tuple(SWITCH),
}
"""Run settings that a variant may change, and their values."""
Read = Callable[[Sequence[str]], Subject]
MOST_VARIANTS = 25  # the letters after A


@dataclass(frozen=True, slots=True)
class RequestedVariant:
    """A variant: its letter, the text of --vs, its architecture, its settings, the changed fields."""

    letter: str
    text: str
    subject: Subject
    settings: RunSettings
    changes: tuple[Setting, ...] = ()


def requested_variants(read: Read, settings: RunSettings, texts: Sequence[str]) -> list[RequestedVariant]:
    """Variant A, the model unchanged, and the requested variants. ArchError with all problems.

    `read` loads the model with overrides.
    """
    if len(texts) > MOST_VARIANTS:
        what = f"{len(texts)} variants are too many"
        raise ArchError(Problem(what, f"at most {MOST_VARIANTS} at once", path="--vs"))
    base = RequestedVariant("A", "as it is", read(()), settings)
    variants, problems = [base], list[Problem]()
    for i, text in enumerate(texts):
        try:
            variants.append(_variant(chr(ord("B") + i), text, read, base))
        except ArchError as error:
            problems += [_renamed(problem) for problem in error.problems]
    if problems:
        raise ArchError(problems)
    return variants


def _variant(letter: str, text: str, read: Read, base: RequestedVariant) -> RequestedVariant:
    run_changes, fields = dict[str, Any](), list[str]()
    for item in split(text):
        key, _, value = item.partition("=")
        if key in RUN_CHANGES:
            run_changes[key] = _run_change(key, value)
        else:
            fields.append(item)
    settings = replace(base.settings, **run_changes)
    changed = read(fields) if fields else base.subject
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
    """Fields with different values in two models."""
    models = [ModelSettings(subject.model, to_mapping(subject.model)) for subject in (base, changed)]
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
    # --vs is shorter than --set, so the caret moves left with the text
    shift = len("--vs") - len(SET)
    text = mark.text.replace(SET, "--vs", 1)
    return replace(problem, mark=replace(mark, file="--vs", text=text, column=mark.column + shift))
