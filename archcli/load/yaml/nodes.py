"""The tree of a YAML or JSON text, with the places of keys and values for the carets of errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from archcli.errors import Mark, describe_value, shorten

MOST_PROBLEMS = 100
"""After so many, reading and building stop: the rest would bury them."""


class Source(NamedTuple):
    """A source text: its name for messages, and its lines.

    `shift` is added to columns of the first line: a value of `--set` is parsed without the key before it.
    """

    name: str
    lines: Sequence[str]
    shift: int = 0


class Place(NamedTuple):
    """A span of characters in one line; line and column count from 0."""

    source: Source
    line: int
    column: int
    width: int = 1

    def mark(self) -> Mark:
        """The place as a Mark for messages: line and column from 1, with the line's text."""
        lines = self.source.lines
        # libyaml places the end of the stream on a line after the last
        line = min(self.line, max(len(lines) - 1, 0))
        text = lines[line] if lines else ""
        column = min(self.column if line == self.line else len(text), len(text))
        return Mark(self.source.name, line + 1, column + 1, text, max(1, min(self.width, len(text) - column)))


class Node:
    """A value with its place and the place of its key; lists and dicts hold further nodes.

    `text` is a plain scalar as it was written; `size` counts the nodes below and itself.
    """

    __slots__ = ("key", "place", "size", "text", "value")

    def __init__(
        self, value: Any, place: Place, key: Place | None = None, text: str = "", size: int = 1
    ) -> None:
        self.value, self.place, self.key, self.text, self.size = value, place, key, text, size

    @property
    def where(self) -> Place:
        """The place that messages point at: the value, or the key of a list or mapping."""
        return self.key if self.key is not None and isinstance(self.value, dict | list) else self.place

    def named(self, key: Place | None) -> Node:
        """A copy of the node under another key."""
        return Node(self.value, self.place, key, self.text, self.size)

    def holding(self, value: Any) -> Node:
        """A node with another value at this node's place."""
        return Node(value, self.place, self.key)


def locate(node: Node, path: str) -> Place:
    """The place of the value at a dotted path, or of the nearest written ancestor."""
    for step in path.split("."):
        inner = child(node, step)
        if inner is None:
            break
        node = inner
    return node.where


def child(node: Node, step: str) -> Node | None:
    """The node at a key of a mapping, or at an index of a list; None where there is none."""
    if isinstance(node.value, dict):
        entry: Node | None = node.value.get(step)
        return entry
    # `-1` is no decimal: int() would count from the end of the list
    if isinstance(node.value, list) and step.isdecimal() and int(step) < len(node.value):
        item: Node = node.value[int(step)]
        return item
    return None


def at(node: Node, path: str) -> Node:
    """The node at a path such as `.0.scale` below this one, or the last node that exists on the way."""
    for step in path.split(".")[1:]:
        node = child(node, step) or node
    return node


def plain(node: Node) -> Any:
    """The value without places."""
    if isinstance(node.value, dict):
        return {key: plain(item) for key, item in node.value.items()}
    return [plain(item) for item in node.value] if isinstance(node.value, list) else node.value


def shown(node: Node) -> str:
    """A value formatted for messages, numbers as written: true, 4096.0, "4096", a list, a mapping."""
    return shorten(node.text) if node.text and not isinstance(node.value, str) else describe_value(node.value)
