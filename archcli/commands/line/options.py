"""Make a command's options from the record of its question; the options of how to print an answer."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields
from functools import wraps
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any

from archcli.api.asking.question import Option, option_of
from archcli.modules.spec.calls import accept
from archcli.modules.spec.values import accepted, hints
from archcli.render import Format

_MODEL = Option(
    "A YAML, config.json or GGUF file, the name of a preset, org/name on the Hugging Face hub, "
    "or - for standard input.",
    metavar="MODEL",
    completes="models",
    argument=True,
)
Model = Annotated[str, _MODEL]
MaybeModel = Annotated[str | None, _MODEL]
"""Of a command that has an answer without a model, too."""
Set = Annotated[
    list[str] | None,
    Option(
        "Change a field: d_ff=11008, ffn.activation=gelu, or by its full path, "
        "groups.0.layer.ffn.d_ff=11008. Repeatable.",
        metavar="KEY=VALUE",
        completes="overrides",
        name="set",
    ),
]
Form = Annotated[
    Format | None,
    Option(
        "Without it: table on a terminal, plain into a pipe, and into a file what its suffix says.",
        name="format",
    ),
]
Json = Annotated[bool, Option("Short for --format json.", name="json")]
Output = Annotated[
    Path | None,
    Option("Write to this file instead of standard output.", "-o", "FILE", name="output", writes=True),
]

Run = Callable[..., int | None]
"""What a subcommand runs; it returns the exit code, or None for 0."""


def asking(*records: Any) -> Callable[[Run], Run]:
    """A decorator that gives a command the options of a question, or of several, before those of its own.

    The command is called with the records in place of its first parameters.
    """

    def decorate(run: Run) -> Run:
        options = [parameter for record in records for parameter in _parameters(record)]
        # annotations are texts under `from __future__ import annotations`; the first parameters are records
        further = [*inspect.signature(run, eval_str=True).parameters.values()][len(records) :]

        @wraps(run)
        def command(**values: Any) -> int | None:
            return run(*[_filled(record, values) for record in records], **values)

        direct = (_parameter(it.name, it.annotation, it.default) for it in further)
        parameters = sorted([*options, *direct], key=lambda it: it.name not in {"model", "models"})
        command.__dict__["__signature__"] = inspect.Signature(parameters)
        return command

    return decorate


def _filled(record: Any, values: dict[str, Any]) -> Any:
    """Move a record's options out of `values` into the record."""
    usual = {field.name: field.default for field in fields(record)}
    names = [parameter.name for parameter in _parameters(record)]
    return record(**{name: _value(record, name, usual[name], values.pop(name)) for name in names})


def _value(record: Any, name: str, default: Any, value: Any) -> Any:
    """The value of a field: the default for an option left out, all values of a repeated one."""
    if value is None:
        return default
    return accept(name, value, accepted(record)) if isinstance(value, list) else value


def _parameters(record: Any) -> Iterator[Parameter]:
    """The parameters of the options: the record's own fields, then those it inherits."""
    annotations = hints(record)
    direct = record.__annotations__
    for field in sorted(fields(record), key=lambda field: field.name not in direct):
        default = Parameter.empty if field.default is MISSING else field.default
        if field.name == "model":
            annotation = Model if default is Parameter.empty else MaybeModel
            yield _parameter(field.name, annotation, default)
        elif option_of(annotations[field.name]) is not None:
            yield _parameter(field.name, annotations[field.name], default)


def _parameter(name: str, annotation: Any, default: Any) -> Parameter:
    """The parameter of an option; None is the default of one that may be repeated."""
    default = None if default == () else default
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
