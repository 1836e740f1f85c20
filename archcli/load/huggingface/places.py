"""Places of the keys of a config.json, for messages that draw a caret under a value."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from archcli.errors import Problem
from archcli.load.yaml.nodes import Place, Source

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
        return object_places(self.source, self.content, offset)

    def report(self, problem: Problem) -> Problem:
        """The problem for the user, without a caret where its place is the file as a whole."""
        if problem.mark != self.start.mark():
            return problem
        return Problem(problem.what, problem.hint, path=self.source.name)


def unplaced(file: str) -> KeyPlaces:
    """The places of data without a text: every key is at the file as a whole."""
    return KeyPlaces(Source(file, ()))


def object_places(source: Source, content: str, start: int) -> KeyPlaces:
    """The places of the values of the JSON object that begins at `start` of a text that is valid JSON."""
    places: dict[str, Place] = {}
    offsets: dict[str, int] = {}
    line, line_start = content.count("\n", 0, start), content.rfind("\n", 0, start) + 1
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
