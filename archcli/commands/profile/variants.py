"""`--vs CHANGE[,CHANGE]`, read: each is one variant, of changes to the architecture as `--set` takes them and to the way it is run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

from archcli.commands.base import Subject, subject
from archcli.commands.profile.measuring import How
from archcli.commands.profile.options import AttentionForm, Dtype
from archcli.errors import SET, ArchError, Problem
from archcli.load.yaml.writer import to_mapping
from archcli.measure.compare.differences import Stated, differences
from archcli.measure.profile.schema.versus import Setting

OPENING, CLOSING, QUOTES = "[{(", ")}]", "'\""
SWITCH = {"true": True, "false": False}
WAYS: dict[str, tuple[str, ...]] = {
    "attention": get_args(AttentionForm),
    "dtype": get_args(get_args(Dtype)[0]),
    "compile": tuple(SWITCH),
}
"""Ways of running that a variant may change, and what they can be."""
MOST = 25  # the letters after A


@dataclass(frozen=True, slots=True)
class Asked:
    """A variant as it was asked for: its letter, its text, the architecture, the way it is run, and what that changes."""

    letter: str
    text: str
    subject: Subject
    how: How
    changes: tuple[Setting, ...] = ()


def variants(model: str, overrides: Sequence[str] | None, how: How, texts: Sequence[str]) -> list[Asked]:
    """The model as it is, as A, and each variant after it; ArchError with the problems of all."""
    if len(texts) > MOST:
        raise ArchError(
            Problem(f"{len(texts)} variants are too many", f"at most {MOST} at once", path="--vs")
        )
    base = Asked("A", "as it is", subject(model, overrides), how)
    found, problems = [base], list[Problem]()
    for i, text in enumerate(texts):
        try:
            found.append(_variant(chr(ord("B") + i), text, model, list(overrides or ()), base))
        except ArchError as error:
            problems += [_renamed(problem) for problem in error.problems]
    if problems:
        raise ArchError(problems)
    return found


def _variant(letter: str, text: str, model: str, overrides: list[str], base: Asked) -> Asked:
    ways, fields = dict[str, Any](), list[str]()
    for item in split(text):
        key, _, value = item.partition("=")
        if key in WAYS:
            ways[key] = _way(key, value)
        else:
            fields.append(item)
    how = replace(base.how, **ways)
    changed = subject(model, [*overrides, *fields]) if fields else base.subject
    changes = (*_settings(base.subject, changed), *_ways(base.how, how))
    if not changes:
        raise ArchError(
            Problem(
                "this variant is the model as it is", "name something that differs", path=f"--vs {text[:60]}"
            )
        )
    return Asked(letter, text, changed, how, changes)


def split(text: str) -> list[str]:
    """The changes of a variant: what commas or semicolons outside of brackets and quotes divide."""
    items, depth, quote = [""], 0, ""
    for char in text:
        quote = "" if char == quote else quote or (char if char in QUOTES else "")
        depth += 0 if quote else (char in OPENING) - (char in CLOSING)
        if char in ",;" and depth <= 0 and not quote:
            items.append("")
        else:
            items[-1] += char
    found = [item.strip() for item in items]
    if not all(found):
        raise ArchError(
            Problem(
                "a change is missing", "such as --vs norm.kind=layernorm,d_ff=4096", path=f"--vs {text[:60]}"
            )
        )
    return found


def _way(key: str, value: str) -> str | bool:
    if value not in WAYS[key]:
        raise ArchError(
            Problem(
                f"{key} {value[:40]!r} is none of {', '.join(WAYS[key])}", path=f"--vs {key}={value[:40]}"
            )
        )
    return SWITCH[value] if key == "compile" else value


def _settings(base: Subject, other: Subject) -> list[Setting]:
    """Every setting that is written for one of the two and differs."""
    stated = [Stated(each.model, to_mapping(each.model)) for each in (base, other)]
    return [
        {"setting": one.path, "from": one.values[0] or "-", "to": one.values[1] or "-"}
        for one in differences(stated)
    ]


def _ways(base: How, other: How) -> list[Setting]:
    pairs = [(key, _word(getattr(base, key)), _word(getattr(other, key))) for key in WAYS]
    return [{"setting": key, "from": ours, "to": theirs} for key, ours, theirs in pairs if ours != theirs]


def _word(way: str | bool) -> str:
    """As it is written on the command line."""
    return next((word for word, switched in SWITCH.items() if switched is way), str(way))


def _renamed(problem: Problem) -> Problem:
    """A problem of an override as one of --vs, which it was written behind."""
    mark = problem.mark
    if mark is None or mark.file != SET:
        return problem
    shift = len("--vs") - len(SET)
    text = mark.text.replace(SET, "--vs", 1)
    return replace(problem, mark=replace(mark, file="--vs", text=text, column=mark.column + shift))
