"""New values written into a text where the old ones stand, and the difference as a patch. Nothing else of the text changes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import unified_diff
from typing import Any, NamedTuple

from archcli.load.marks import Node, Place

Change = tuple[str, Any]
"""The full path of a field, and its new value."""


class Edited(NamedTuple):
    """The text with the changes that could be written into it, and those that could not."""

    text: str
    left: tuple[Change, ...]


class _Edit(NamedTuple):
    line: int
    column: int
    width: int
    words: str


def edited(root: Node, lines: Sequence[str], file: str, changes: Sequence[Change]) -> Edited:
    """The lines of a file with each change in place of the old value, or as a new key where the mapping it belongs in is written out.

    Values that stand elsewhere (an import, an override, an inherited mapping) are left.
    """
    edits: dict[tuple[int, int], _Edit] = {}
    left: list[Change] = []
    for path, value in dict(changes).items():
        edit = _edit(root, path, str(value), file)
        if edit is None:
            left.append((path, value))
        else:
            edits[edit.line, edit.column] = edit
    new = list(lines)
    for edit in sorted(edits.values(), reverse=True):
        line = new[edit.line]
        new[edit.line] = line[: edit.column] + edit.words + line[edit.column + edit.width :]
    return Edited("\n".join(new), tuple(left))


def as_patch(old: str, new: str, file: str) -> str:
    """A unified diff that `patch` and `git apply` take."""
    before, after = old.splitlines(keepends=True), new.splitlines(keepends=True)
    return "".join(unified_diff(before, after, f"a/{file}", f"b/{file}"))


def _edit(root: Node, path: str, words: str, file: str) -> _Edit | None:
    *above, name = path.split(".")
    parent: Node | None = root
    for step in above:
        parent = _child(parent, step)
    if parent is None:
        return None
    own = _child(parent, name)
    if own is not None:
        place = own.place
        return _Edit(place.line, place.column, place.width, words) if place.source.name == file and own.text else None
    return _inserted(parent, name, words, file)


def _child(node: Node | None, step: str) -> Node | None:
    if node is None:
        return None
    if isinstance(node.value, dict):
        found: Node | None = node.value.get(step)
        return found
    if isinstance(node.value, list) and step.isdecimal() and int(step) < len(node.value):
        item: Node = node.value[int(step)]
        return item
    return None


def _inserted(parent: Node, name: str, words: str, file: str) -> _Edit | None:
    """A new key before the first one that is written there, on a line of its own in block style."""
    if not isinstance(parent.value, dict):
        return None
    keys = [node.key for node in parent.value.values() if node.key is not None and node.key.source.name == file]
    first: Place | None = min(keys, key=lambda place: (place.line, place.column), default=None)
    if first is None or (parent.place.line, parent.place.column) > (first.line, first.column):
        return None
    line = first.source.lines[first.line][: first.column]
    block = re.fullmatch(r"[\s-]*", line) is not None
    return _Edit(first.line, first.column, 0, f"{name}: {words}\n{' ' * first.column}" if block else f"{name}: {words}, ")
