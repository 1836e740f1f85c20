"""Turn the `Option`s of a command into parameters of typer."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from inspect import Parameter
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import typer

from archcli.api.asking.question import Option, option_of
from archcli.commands.line import completion
from archcli.commands.line.options import Run
from archcli.commands.line.values import line_type, picture_file, reader
from archcli.errors import ArchError


def as_command(run: Run) -> Run:
    """The function of a subcommand with parameters that typer reads."""
    # annotations are texts under `from __future__ import annotations`
    signature = inspect.signature(run, eval_str=True).parameters.values()
    options = {parameter.name: option_of(parameter.annotation) for parameter in signature}

    @wraps(run)
    def command(**values: Any) -> int | None:
        refuse_overwriting(options, values)
        return run(**values)

    parameters = [_parameter(parameter) for parameter in signature]
    command.__dict__["__signature__"] = inspect.Signature(parameters)
    # a dict of the function, which typer's wrapper around it takes over
    command.__dict__["also"] = {
        name: option.also for name, option in options.items() if option and option.also
    }
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command


def refuse_overwriting(options: Mapping[str, Option | None], arguments: Mapping[str, Any]) -> None:
    """Raise ArchError if the output file is one that the same command reads."""
    writing = {name for name, it in options.items() if it and (it.writes or it.reads == "picture")}
    values = chain.from_iterable(
        value if isinstance(value, list) else [value]
        for name, value in arguments.items()
        if name not in writing
    )
    read = [Path(value) for value in values if isinstance(value, str | Path)]
    for file in (arguments.get(name) for name in writing):
        if file is not None and any(_reads(value, Path(file)) for value in read):
            raise ArchError(f"{file} is read, and would be written over", "name another file")


def _reads(value: Path, file: Path) -> bool:
    """Whether an argument names this existing file, or a folder whose model it is or describes."""
    from archcli.load.source import CONFIGS  # of commands that write a file

    try:
        is_model = file.name in CONFIGS or file.suffix in {".gguf", ".safetensors"}
        # a folder or a device is no file that could be lost
        return file.is_file() and any(value.samefile(it) for it in (file, *[file.parent] * is_model))
    except (OSError, ValueError):  # not there, or a name that the system refuses
        return False


def _parameter(parameter: Parameter) -> Parameter:
    """The parameter with typer's option in place of archcli's `Option`; without one, unchanged."""
    option = option_of(parameter.annotation)
    if option is None:
        return parameter
    kind = line_type(parameter.annotation, option)
    typers = _typer_option(parameter.name, option, parameter.annotation)
    return parameter.replace(annotation=Annotated[kind, typers], kind=Parameter.KEYWORD_ONLY)


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
        settings["parser"] = _parser(reader(name, option, annotation))
    if option.argument:
        return typer.Argument(**settings)
    names = [f"--{option.name or name.replace('_', '-')}", *([option.letter] if option.letter else [])]
    return typer.Option(*names, **settings)


def _parser(read: Callable[[object], Any]) -> Callable[[object], Any]:
    """The parser that typer takes, which refuses a text with typer.BadParameter."""

    # a function, as click asks a parser for its name, which a partial lacks
    def parse(text: object) -> Any:
        try:
            return read(text)
        except ArchError as problem:
            raise typer.BadParameter(str(problem)) from None

    return parse
