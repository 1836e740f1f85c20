"""The options of a command, made of the record of its question; and those of how an answer is printed."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import MISSING, fields
from functools import partial, wraps
from inspect import Parameter
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import typer

from archcli.api.asking.question import Option, option_of
from archcli.commands.line import completion
from archcli.errors import ArchError, quote
from archcli.modules.spec.calls import accept
from archcli.modules.spec.values import ValueType, accepted, bare, hints, value_type
from archcli.render import Format
from archcli.units import bytes_note, parse_bytes, parse_count, tokens_note

_MODEL = typer.Argument(
    metavar="MODEL",
    autocompletion=completion.models,
    help=(
        "A YAML, config.json or GGUF file, the name of a preset, org/name on the Hugging Face hub, "
        "or - for standard input."
    ),
)
Model = Annotated[str, _MODEL]
MaybeModel = Annotated[str | None, _MODEL]
"""Of a command that has an answer without a model, too."""
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        autocompletion=completion.overrides,
        help=(
            "Change a field: d_ff=11008, ffn.activation=gelu, or by its full path, "
            "groups.0.layer.ffn.d_ff=11008. Repeatable."
        ),
    ),
]
Form = Annotated[
    Format | None,
    typer.Option(
        "--format",
        help="Without it: table on a terminal, plain into a pipe, and into a file what its suffix says.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Short for --format json.")]
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="Write to this file instead of standard output."),
]


def picture_file(text: str) -> Path:
    """Parse the file of a picture; ArchError, before anything is counted, where it could not be written."""
    from archcli.render.picture import check_picture

    check_picture(Path(text))
    return Path(text)


def asking(*records: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A decorator that gives a command the options of a question, or of several, before those of its own.

    The command is called with the records in place of its first parameters.
    """

    def decorate(run: Callable[..., None]) -> Callable[..., None]:
        options = [parameter for record in records for parameter in _parameters(record)]
        # annotations are texts under `from __future__ import annotations`; the first parameters are records
        further = [*inspect.signature(run, eval_str=True).parameters.values()][len(records) :]

        @wraps(run)
        def command(**given: Any) -> None:
            run(*[_filled(record, given) for record in records], **given)

        direct = (_parameter(it.name, it.annotation, it.default) for it in further)
        parameters = sorted([*options, *direct], key=lambda it: it.name not in {"model", "models"})
        command.__dict__["__signature__"] = inspect.Signature(parameters)
        command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return command

    return decorate


def _filled(record: Any, given: dict[str, Any]) -> Any:
    """A record of the options that are given, which are taken out."""
    usual = {field.name: field.default for field in fields(record)}
    names = [parameter.name for parameter in _parameters(record)]
    return record(**{name: _value(record, name, usual[name], given.pop(name)) for name in names})


def _value(record: Any, name: str, default: Any, given: Any) -> Any:
    """The value of a field: the default for an option left out, all values of a repeated one."""
    if given is None:
        return default
    return accept(name, given, accepted(record)) if isinstance(given, list) else given


def _parameters(record: Any) -> Iterator[Parameter]:
    """The parameters that typer makes options of: the record's own fields, then those it inherits."""
    annotations = hints(record)
    direct = record.__annotations__
    for field in sorted(fields(record), key=lambda field: field.name not in direct):
        default = Parameter.empty if field.default is MISSING else field.default
        if field.name == "model":
            required = default is Parameter.empty
            annotation = Model if required else MaybeModel
            yield Parameter(field.name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        elif option_of(annotations[field.name]) is not None:
            yield _parameter(field.name, annotations[field.name], default)


def _parameter(name: str, annotation: Any, default: Any) -> Parameter:
    """The parameter of an annotation; an Option in it becomes an option or argument of typer."""
    option = option_of(annotation)
    if option is not None:
        annotation = Annotated[_line_type(annotation, option), _typer_option(name, option, annotation)]
    default = None if default == () else default  # typer repeats an option whose default is None
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _line_type(annotation: Any, option: Option) -> Any:
    """The type that typer knows a field's values by: lists are repeated options."""
    kind = bare(annotation)
    arms = get_args(kind) if get_origin(kind) in {Union, UnionType} else (kind,)
    if option.reads:
        kind = READ[option.reads]
        return kind | None if NoneType in arms else kind
    if get_origin(kind) is Sequence or Sequence[str] in arms:
        item: Any = Path if Path in get_args(kind) else str
        return list[item] | None
    return kind


def _typer_option(name: str, option: Option, annotation: Any) -> Any:
    """The option or argument of typer for a field."""
    settings: dict[str, Any] = {
        "metavar": option.metavar,
        "help": option.help,
        "autocompletion": getattr(completion, option.completes) if option.completes else None,
        "case_sensitive": not option.any_case,
        "show_default": option.default or True,
    }
    if option.reads == "picture":
        settings["parser"] = picture_file
    elif option.reads:
        settings["parser"] = partial(_read, name=name, how=option.reads, known=value_type(annotation))
    if option.argument:
        return typer.Argument(**settings)
    names = [f"--{option.name or name.replace('_', '-')}", *([option.letter] if option.letter else [])]
    return typer.Option(*names, **settings)


READ: dict[str, type] = {
    **dict.fromkeys(("count", "tokens", "bytes"), int),
    "number": float,
    "text": str,
    "picture": Path,
}
"""What each way to read a text makes of it."""


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ArchError(f"{quote(text)} is no number") from None


def _read(text: object, name: str, how: str, known: ValueType) -> Any:
    """The value that a text stands for; typer.BadParameter for one that the field does not take."""
    # typer sends a default through the parser too, which may be a number
    written = str(text)
    value: Any = written
    try:
        if how == "bytes":
            value = parse_bytes(written)
        elif how == "number":
            value = _number(written)
        elif how != "text":
            value = parse_count(written)
        value = accept(name, value, {name: known})
    except ArchError as problem:
        raise typer.BadParameter(str(problem)) from None
    note = {"tokens": tokens_note, "bytes": bytes_note}.get(how)
    if note is not None and (said := note(written)):
        typer.echo(f"note: {said}", err=True)
    return value
