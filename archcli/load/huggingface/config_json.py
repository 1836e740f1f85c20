"""Parsing of a config.json to data, with the place of every key and value in the user's file."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, TypeVar

from archcli.errors import ArchError, Problem, quote
from archcli.load.huggingface.keys import THEIRS_ALONE
from archcli.load.spec.renamed import OUR_WORD
from archcli.load.yaml.nodes import Node, Place, Source
from archcli.load.yaml.text import Text

T = TypeVar("T")
S = TypeVar("S")

Mapped = dict[str, Any]
"""An importer's result: archcli's YAML keys, with plain values or `ConfigValue`s."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ConfigValue(Generic[T]):
    """A value of a config.json, with its place there.

    It compares, hashes and tests as the value does; for arithmetic there is `.value`.
    """

    value: T
    place: Place

    def derive(self, value: S) -> ConfigValue[S]:
        """A value computed from this one, with the same place."""
        return ConfigValue(value, self.place)

    def __bool__(self) -> bool:
        return bool(self.value)

    def __eq__(self, value: object) -> bool:
        return bool(self.value == bare(value))

    def __hash__(self) -> int:
        return hash(self.value)

    def __repr__(self) -> str:
        return repr(self.value)


def bare(value: Any) -> Any:
    """The value without its place."""
    return value.value if isinstance(value, ConfigValue) else value


def tree_of(mapping: Mapped, start: Place) -> Node:
    """The mapping as a tree of nodes; values without a place of their own are at `start`.

    A mapping that occurs many times, as a layer does, becomes one node.
    """
    # by identity: the objects live as long as `mapping`, so that no id is given twice
    node_of: dict[int, Node] = {}

    def node(value: Any, place: Place) -> Node:
        if isinstance(value, ConfigValue):
            return node(value.value, value.place)
        if isinstance(value, list):
            return Node([node(item, place) for item in value], place)
        if not isinstance(value, dict):
            return Node(value, place)
        if id(value) not in node_of:
            node_of[id(value)] = Node({key: node(item, place) for key, item in value.items()}, place)
        return node_of[id(value)]

    return node(mapping, start)


def without_none(mapping: Mapped) -> Mapped:
    """The mapping without keys whose value is None."""
    return {key: value for key, value in mapping.items() if value is not None}


NO_PLACES: Mapping[str, Place] = MappingProxyType({})
NO_OFFSETS: Mapping[str, int] = MappingProxyType({})
SPACE, COLON, COMMA = re.compile(r"\s*"), re.compile(r"\s*:\s*"), re.compile(r"\s*,?\s*")
DECODER = json.JSONDecoder()


class KeyPlaces(NamedTuple):
    """The place of the value of every key of one JSON object.

    `content` is the whole text and `offsets` are where in it the values begin; they lead to objects inside.
    """

    source: Source
    places: Mapping[str, Place] = NO_PLACES
    content: str = ""
    offsets: Mapping[str, int] = NO_OFFSETS

    @property
    def start(self) -> Place:
        """The place of the file as a whole, for values that no key states."""
        return Place(Source(self.source.name, ()), 0, 0)

    def place(self, *keys: str) -> Place:
        """The place of the first of these keys present in the object, else the file as a whole."""
        return next((self.places[key] for key in keys if key in self.places), self.start)

    def inner(self, key: str) -> KeyPlaces:
        """The places within the object that this key holds."""
        offset = self.offsets.get(key)
        if offset is None or self.content[offset] != "{":
            return KeyPlaces(self.source)
        place = self.places[key]
        return object_places(self.source, self.content, offset, (place.line, offset - place.column))

    def report(self, problem: Problem) -> Problem:
        """The problem for the user, without a caret where its place is the file as a whole."""
        if problem.mark != self.start.mark():
            return problem
        return Problem(problem.what, problem.hint, path=self.source.name)


def unplaced(file: str) -> KeyPlaces:
    """The places of data without a text: every key is at the file as a whole."""
    return KeyPlaces(Source(file, ()))


def object_places(
    source: Source, content: str, start: int, line_at: tuple[int, int] | None = None
) -> KeyPlaces:
    """The places of an object's values in a valid JSON text; the object begins at `start`.

    `line_at` is the number of its line and where that begins, which are counted where they are not known.
    """
    places: dict[str, Place] = {}
    offsets: dict[str, int] = {}
    line, line_start = line_at or (content.count("\n", 0, start), content.rfind("\n", 0, start) + 1)
    counted = start
    for key, offset, end in _members(content, start):
        newlines = content.count("\n", counted, offset)
        if newlines:
            line, line_start = line + newlines, content.rfind("\n", counted, offset) + 1
        counted = offset
        places[key], offsets[key] = Place(source, line, offset - line_start, end - offset), offset
    return KeyPlaces(source, places, content, offsets)


def _members(content: str, start: int) -> Iterator[tuple[str, int, int]]:
    """(key, where its value begins, where it ends) of every member of an object."""
    at = _after(SPACE, content, start + 1)
    while content[at] != "}":
        key, at = DECODER.raw_decode(content, at)
        offset = _after(COLON, content, at)
        _, end = DECODER.raw_decode(content, offset)
        yield key, offset, end
        at = _after(COMMA, content, end)


def _after(pattern: re.Pattern[str], content: str, at: int) -> int:
    match = pattern.match(content, at)
    return match.end() if match else at


TOKENS = re.compile(r'(?P<key>"(?:[^"\\]|\\.)*")(?:\s*:)?|[{}]')
"""Strings, keys with their colon, and the brackets of objects."""


class ConfigJson(NamedTuple):
    """A config.json: its data as plain dicts and lists, and the places of its keys."""

    data: Any
    places: KeyPlaces


ADAPTER = "peft_type"
"""The key of an adapter_config.json that no config.json has."""


def is_foreign(keys: Collection[str]) -> bool:
    """Whether a mapping with these keys is a Hugging Face config.json."""
    return not {"groups", "kind"}.intersection(keys) and bool(THEIRS_ALONE.intersection(keys))


def _is_config(keys: Collection[str]) -> bool:
    """Whether a JSON object with these keys is a config.json; the earliest ones have no model_type."""
    is_ours = {"groups", "kind"}.intersection(keys)
    return not is_ours and bool({*THEIRS_ALONE, *OUR_WORD, ADAPTER}.intersection(keys))


def read_config(text: Text) -> ConfigJson | None:
    """Parse a text as a config.json; None where it is something else.

    It is read before YAML is tried, whose limits are those of our own files.
    """
    content = text.content
    start = len(content) - len(content.lstrip())
    if not content.startswith("{", start):
        return None
    try:
        data = json.loads(content, object_pairs_hook=_refuse_repeated_keys)
        return ConfigJson(data, object_places(text.source, content, start)) if _is_config(data) else None
    except (ValueError, RecursionError) as error:
        known = ("groups", "kind", *THEIRS_ALONE, *OUR_WORD, ADAPTER)
        if _is_config([key for key in known if f'"{key}"' in content]):
            raise _no_json(text, error) from None
        return None


class _RepeatedKeyError(ValueError):
    """An object of a JSON text states a key twice."""


def _refuse_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        raise _RepeatedKeyError
    return mapping


def _repeated(text: Text) -> Problem:
    """The problem of the first key that its object states twice."""
    objects: list[set[str]] = []
    for match in TOKENS.finditer(text.content):
        part = match[0]
        if part == "{":
            objects.append(set())
        elif part == "}":
            objects.pop()
        elif part.endswith(":"):
            key = json.loads(match["key"])
            if key in objects[-1]:
                line = text.content.count("\n", 0, match.start())
                column = match.start() - text.content.rfind("\n", 0, match.start()) - 1
                mark = Place(text.source, line, column, len(match["key"])).mark()
                return Problem(f"key {quote(key)} is stated twice", "leave one of the two out", mark)
            objects[-1].add(key)
    raise AssertionError("no key is stated twice")


def too_deep(file: str) -> ArchError:
    """The ArchError about a config.json nested too deeply for Python's stack."""
    return ArchError(Problem("nested too deep; no config.json is like that", path=file))


def _no_json(text: Text, error: Exception) -> ArchError:
    """The ArchError about a config.json that is not valid JSON."""
    if isinstance(error, RecursionError):
        return too_deep(text.source.name)
    if isinstance(error, _RepeatedKeyError):
        return ArchError(_repeated(text))
    if isinstance(error, json.JSONDecodeError):
        what = f"a config.json has to be JSON: {error.msg.removesuffix(' at')}"
        return ArchError(Problem(what, "", Place(text.source, error.lineno - 1, error.colno - 1).mark()))
    # what is left is int(), which refuses more than 4,300 digits
    what = "a number of thousands of digits; no config.json is like that"
    return ArchError(Problem(what, path=text.source.name))
