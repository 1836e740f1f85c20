"""Calls whose arguments are checked by the annotations of a function, or of a question's record.

A call with anything else raises one ArchError with all that is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import wraps
from inspect import BoundArguments, Signature, signature
from typing import Any, ParamSpec, TypeVar

from archcli.errors import ArchError, Problem, either, quote, suggest
from archcli.modules.spec.request import Request
from archcli.modules.spec.values import Refusal, ValueType, accepted, bare, hints, unwrapped

P = ParamSpec("P")
R = TypeVar("R")

SCREEN = 84
"""Columns of a docstring: help() takes four of them off."""
MEANINGS = {
    "model": "A preset or another name, the path of a file or folder, a mapping, or a Model.",
    "models": "Presets or other names, paths, mappings, or Models.",
    "values": "Sizes by name, each an array [N]: N shapes that are counted, and not searched.",
    "request": "A Request, in place of its fields.",
    "plan": "Degrees by name, in place of dp, tp and the others.",
    "path": "Of a row, to explain it alone.",
    "latex": "Write formulas as LaTeX.",
    "set": 'Changes of the model: {"n_heads": 8}, or ["n_heads=8"] as --set takes them.',
}
"""Meanings of arguments that are no options of a command."""


def accept(name: str, value: Any, known: Mapping[str, ValueType], where: str = "") -> Any:
    """The value converted to what `name` accepts; ArchError with `where` otherwise."""
    try:
        return known[name].convert(value)
    except Refusal as refusal:
        what, hint = f"{name}{refusal.path} {refusal.of_argument()}", ""
    except ArchError as error:
        what, hint = error.problems[0].what, error.problems[0].hint
    raise ArchError(Problem(what, hint, path=where)) from None


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """A decorator that checks a function's arguments by their annotations; ArchError for a wrong one."""

    @wraps(function)
    def call(*args: P.args, **options: P.kwargs) -> R:
        arguments = bound(function, args, options)
        return function(*arguments.args, **arguments.kwargs)

    shown = plain_signature(function, function)
    call.__dict__["__signature__"] = shown  # which help() shows, as the docstring
    call.__doc__ = with_arguments(call.__doc__, hints(function), shown.parameters)
    return call


def with_arguments(doc: str | None, annotations: Mapping[str, Any], names: Iterable[str]) -> str:
    """A docstring with the meaning of each argument, from the command's help."""
    meanings = {name: _meaning(annotations.get(name)) or MEANINGS.get(name, "") for name in names}
    lines = [line for name, text in meanings.items() if text for line in _filled(f"{name}: {text}")]
    return "\n".join([(doc or "").rstrip(), "", "    Arguments:", *lines, "    "]) if lines else doc or ""


def _meaning(annotation: Any) -> str:
    """The help of an option, from the metadata of its annotation."""
    helps = (getattr(entry, "help", "") for entry in unwrapped(annotation)[1])
    return next(filter(None, helps), "")


def _filled(text: str) -> Iterator[str]:
    """A text in lines of a screen's width. textwrap would cost each start of a command milliseconds."""
    line = " " * 8
    for word in text.split():
        if len(line) + len(word) > SCREEN:
            yield line.rstrip()
            line = " " * 12
        line += f"{word} "
    yield line.rstrip()


def plain_signature(asker: Callable[..., Any], returning: Callable[..., Any]) -> Signature:
    """The signature of a function or record with plain types in place of annotated ones.

    What a record inherits stands last.
    """
    plain, annotated = {name: bare(hint) for name, hint in hints(asker).items()}, signature(asker)
    parameters = [
        parameter.replace(annotation=plain.get(name, parameter.annotation))
        for name, parameter in annotated.parameters.items()
    ]
    parameters.sort(key=lambda parameter: (parameter.kind, parameter.name not in asker.__annotations__))
    return annotated.replace(parameters=parameters, return_annotation=returning.__annotations__["return"])


def bound(
    asker: Callable[..., Any],
    args: tuple[Any, ...],
    options: Mapping[str, Any],
    where: str = "",
    *,
    extra: Collection[str] = (),
) -> BoundArguments:
    """The arguments of a call of a function or record, each checked; ArchError with all that is wrong.

    `where` is the name that errors give it; `extra` are names that its caller takes, such as `set`.
    """
    where, known = where or asker.__name__, signature(asker)
    # before bind(): its TypeError names one argument, and nothing near it
    problems = [
        _unknown(name, [*known.parameters, *extra], where) for name in options if name not in known.parameters
    ]
    if problems:
        raise ArchError(problems)
    try:
        call = known.bind(*args, **options)
    except TypeError as error:
        raise ArchError(Problem(str(error), f"help(archcli.{where}) shows them", path=where)) from None
    problems = list(_checked(call, where, accepted(asker)))
    if problems:
        raise ArchError(problems)
    return call


def _unknown(name: str, known: Collection[str], where: str) -> Problem:
    return Problem(f"unknown argument {quote(name)}", suggest(name, known, "it has"), path=where)


def _checked(call: BoundArguments, where: str, known: Mapping[str, ValueType]) -> Iterator[Problem]:
    """Convert the arguments of a call; yields what is refused. A default that is repeated is accepted."""
    for name, value in call.arguments.items():
        if name in known and value is not call.signature.parameters[name].default:
            try:
                call.arguments[name] = accept(name, value, known, where)
            except ArchError as error:
                yield from error.problems
    twice = [name for name in call.arguments if name in {*accepted(Request), "mla", "scan"}]
    if call.arguments.get("request") is not None and twice:
        yield Problem(f"{either(twice)} stands beside a request", "state it in the Request alone", path=where)
