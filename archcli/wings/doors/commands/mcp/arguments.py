"""The arguments of an MCP tool: JSON Schema and values, from the records of options."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, fields, replace
from importlib import import_module
from typing import Any, NamedTuple

from archcli.api.asking.question import Option, option_of
from archcli.errors import ArchError, Problem, suggest
from archcli.modules.spec.calls import accept, bound
from archcli.modules.spec.values import NULL, Json, ValueType, hints, value_type
from archcli.units import bytes_note, parse_count, tokens_note

NAMES_FILE = {"CHECKPOINT", "FILE", "DIR", "PROFILE.json"}
"""Metavars of options that name files: tools lack these options, as they read and write no files."""
OF_FILES = (".yaml", ".yml")
"""Suffixes of the file of a device."""
COUNTS = {"count", "tokens"}
SIZES = {"bytes"}
NOTES = {"tokens": tokens_note, "bytes": bytes_note}
MODEL: Json = {
    "description": "A preset such as llama-3.1-8b, or the content of a config.json or of an archcli YAML; a "
    "path only with --folder.",
    "type": ["string", "object"],
}
SET: Json = {
    "description": "Fields to change, KEY=VALUE: d_ff=11008, groups.0.layer.ffn.d_ff=11008.",
    "type": "array",
    "items": {"type": "string"},
}
SET_ONE: Json = {
    **SET,
    "description": "Fields to change of all models, KEY=VALUE, or of the second alone, 2:KEY=VALUE.",
}
ROWS: Json = {
    "description": "Every row and figure, in place of at most 4 kB.",
    "type": "boolean",
    "default": False,
}


class Argument(NamedTuple):
    """An option as an argument of a tool. `default` is MISSING for a required one."""

    name: str
    option: Option
    known: ValueType
    default: Any

    @property
    def is_required(self) -> bool:
        """Whether it is required."""
        return self.default is MISSING

    @property
    def is_list(self) -> bool:
        """Whether it takes several texts."""
        return bool(self.default == ())

    @property
    def schema(self) -> Json:
        """The JSON Schema of its values, with its default and its help."""
        schema = {**self._values(), "description": self.option.help}
        if self.default not in (MISSING, None, ()):
            schema["default"] = self.default
        return schema

    def _values(self) -> Json:
        if self.is_list:
            return {"type": "array", "items": {"type": "string"}}
        arms = self.known.schema.get("anyOf", [self.known.schema])
        schema = next(arm for arm in arms if arm != NULL)
        if self.option.reads in COUNTS and "enum" not in schema:
            return {**schema, "type": ["integer", "string"]}  # 8k is 8,000, 8K is 8,192
        if not schema:
            is_size = self.option.reads in SIZES or self.option.metavar in {"SIZE", "RATE"}
            return {"type": ["integer", "string"] if is_size else "string"}
        return dict(schema)

    def value(self, value: Any) -> Any:
        """A JSON value converted for the record: 8k to 8,000. Raises ArchError for a file."""
        texts = [value] if isinstance(value, str) else value if self.is_list else []
        for text in texts if isinstance(texts, list) else ():
            if isinstance(text, str) and any(suffix in text.lower() for suffix in OF_FILES):
                what = f"{self.name} names a file, and tools read none"
                raise ArchError(what, "name a device of `archcli devices`, such as h100-sxm")
        if isinstance(value, str) and self.option.reads in COUNTS:
            return parse_count(value)
        return texts if self.is_list and texts else value

    def note(self, value: Any) -> str:
        """The command's note on a text such as 128k; empty for a plain number."""
        noted = NOTES.get(self.option.reads) if isinstance(value, str) else None
        return "" if noted is None else noted(value)

    def as_typed(self, value: Any) -> list[str]:
        """The words of the option on the command line."""
        if self.option.argument:
            return [str(value)]
        name = f"--{self.option.name or self.name.replace('_', '-')}"
        if value is True or value is False:
            return [name] if value else []
        items = value if self.is_list and not isinstance(value, str) else [value]
        return [word for item in items for word in (name, str(item))]


def record_of(home: str) -> Any:
    """Import the record `module:name` of a question."""
    module, _, name = home.partition(":")
    return vars(import_module(module))[name]


def arguments(record: Any) -> dict[str, Argument]:
    """The arguments of a record by name: its options, except rare ones and those that name files."""
    return {argument.name: argument for argument in _arguments(record)}


def _arguments(record: Any) -> Iterator[Argument]:
    known = hints(record)
    for field in fields(record):
        option = option_of(known[field.name]) if field.name in known else None
        if option is not None and not option.rare and option.metavar not in NAMES_FILE:
            yield Argument(field.name, option, value_type(known[field.name]), field.default)


def check_names(tool: str, arguments: Mapping[str, Any], schema: Json) -> None:
    """Raise ArchError for unknown arguments, and for missing required ones."""
    known, required = schema["properties"], schema["required"]
    problems = [
        Problem(f"unknown argument '{name[:40]}'", suggest(name, known, "it has"), path=tool)
        for name in arguments
        if name not in known
    ]
    problems += [
        Problem(f"{name} is missing", str(known[name]["description"]), path=tool)
        for name in required
        if arguments.get(name) is None
    ]
    if problems:
        raise ArchError(problems)


def filled(tool: str, record: Any, known: Mapping[str, Argument], arguments: Mapping[str, Any]) -> Any:
    """The record of a question with these arguments. Raises one ArchError for all refused values."""
    values: dict[str, Any] = {}
    problems: list[Problem] = []
    for name, value in arguments.items():
        try:
            values[name] = known[name].value(value)
        except ArchError as error:
            problems += [replace(problem, path=f"{tool}: {name}") for problem in error.problems]
    if problems:
        raise ArchError(problems)
    if any(field.name == "model" and field.default is MISSING for field in fields(record)):
        # required by the record, but tools load the model separately
        values["model"] = ""
    call = bound(record, (), values, tool)
    return record(*call.args, **call.kwargs)


def checked(tool: str, name: str, value: Any, annotation: Any) -> Any:
    """Check the value of an argument that is no option of a record, such as rows."""
    return accept(name, value, {name: value_type(annotation)}, tool)


def command_line(tool: str, models: Sequence[str], options: Sequence[str], sets: Sequence[str]) -> str:
    """The command line that gives the same answer."""
    overrides = [word for text in sets for word in ("--set", text)]
    return shlex.join(["archcli", tool, *models, *options, *overrides])
