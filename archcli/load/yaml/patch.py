"""Write new values into the text of a file, as a patch.

Nothing else of the text changes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from difflib import unified_diff
from pathlib import Path
from typing import Any, NamedTuple

from archcli.errors import format_value
from archcli.load.yaml.nodes import Node, Place, Source, child
from archcli.load.yaml.text import BOM, MOST_BYTES, open_regular

Change = tuple[str, Any]
"""The full path of a field, and its new value."""

NO_END = "\\ No newline at end of file\n"


class Patch(NamedTuple):
    """A unified diff for `patch -p1` or `git apply`, empty where nothing changes.

    `left` are the changes that are not in the patch.
    """

    text: str
    left: tuple[Change, ...]


class _Edit(NamedTuple):
    line: int
    column: int
    width: int
    text: str


def patch_of(root: Node, changes: Iterable[Change]) -> Patch:
    """The changes as a patch of the tree's file.

    A value is written in place of the old one, or as a new key; in a config.json only in place of the same
    value. Left out are values that stand elsewhere or are derived (by an import, an override), and all of a
    text that is no file (a preset, standard input).
    """
    source = root.place.source
    lines = _lines(source)
    edits: dict[tuple[int, int], _Edit] = {}
    left: list[Change] = []
    for path, value in dict(changes).items():
        edit = _edit(root, path, format_value(value), source.name) if lines is not None else None
        if edit is None:
            left.append((path, value))
        else:
            # several new keys of one mapping go before its first key, so to the same place
            before = edits.get((edit.line, edit.column))
            edits[edit.line, edit.column] = (
                edit if before is None or edit.width else edit._replace(text=before.text + edit.text)
            )
    text = "" if lines is None else _diff(lines, _edited(lines, edits.values()), source.name)
    return Patch(text, tuple(left))


def _lines(source: Source) -> list[str] | None:
    """The lines of the file, with line ends and the byte order mark.

    None where the file is gone or says something else by now.
    """
    try:
        with open_regular(Path(source.name)) as file:
            text = file.read(MOST_BYTES + 1).decode("utf-8")
    except (OSError, ValueError):
        return None
    # str.splitlines would break at form feeds and U+2028 too, where YAML's lines go on
    lines = re.findall(r"[^\n]*\n|[^\n]+", text)
    bare = [line.removesuffix("\n").removesuffix("\r") for line in lines]
    if bare:
        bare[0] = bare[0].removeprefix(BOM)
    # Source.lines comes of split("\n"): an empty line ends them where the file ends with a line end
    return lines if [*bare, ""][: len(source.lines)] == list(source.lines) else None


def _edited(lines: Sequence[str], edits: Iterable[_Edit]) -> list[str]:
    new = list(lines)
    # from the end, so that an edit moves no place of the edits that are left
    for edit in sorted(edits, reverse=True):
        line = new[edit.line]
        # places do not count the byte order mark, which the file's first line still has
        start = edit.column + line.startswith(BOM)
        inserted = edit.text.replace("\n", "\r\n") if line.endswith("\r\n") else edit.text
        new[edit.line] = line[:start] + inserted + line[start + edit.width :]
    # an inserted key brings a line break of its own; difflib needs one line an entry
    return [line for text in new for line in re.findall(r"[^\n]*\n|[^\n]+", text)]


def _diff(old: Sequence[str], new: Sequence[str], file: str) -> str:
    name = os.path.relpath(file)
    # `git apply` refuses a path that climbs out of the folder with `..`
    name = file if name.startswith("..") else name.replace(os.sep, "/")
    lines = unified_diff(old, new, _quoted(f"a/{name}"), _quoted(f"b/{name}"))
    return "".join(line if line.endswith("\n") else f"{line}\n{NO_END}" for line in lines)


def _quoted(name: str) -> str:
    """A file name as git writes it.

    In quotes where it holds a quote or a control character, with a tab behind where it holds a blank.
    """
    if name.isprintable() and not set(name) & {'"', "\\"}:
        return f"{name}\t" if " " in name else name
    named = {'"': '\\"', "\\": "\\\\"}
    return (
        '"'
        + "".join(
            named.get(c, c if c.isprintable() else "".join(f"\\{byte:03o}" for byte in c.encode()))
            for c in name
        )
        + '"'
    )


def _edit(root: Node, path: str, text: str, file: str) -> _Edit | None:
    *above, name = path.split(".")
    parent = root
    for step in above:
        inner = child(parent, step)
        if inner is None:
            return None
        parent = inner
    old = child(parent, name)
    if old is not None:
        place = old.place
        is_written = old.text or _text_at(place) == format_value(old.value)
        replaced = _Edit(place.line, place.column, place.width, text)
        return replaced if place.source.name == file and is_written else None
    return _inserted(parent, name, text, file)


def _text_at(place: Place) -> str:
    """The text of the file at a place; in an imported file the original value of the key."""
    lines = place.source.lines
    text = lines[place.line] if place.line < len(lines) else ""
    return text[place.column : place.column + place.width]


def _inserted(parent: Node, name: str, text: str, file: str) -> _Edit | None:
    """The edit that inserts a key before the parent's first one; None where the parent has none."""
    if not isinstance(parent.value, dict):
        return None
    keys = [
        node.key for node in parent.value.values() if node.key is not None and node.key.source.name == file
    ]
    first: Place | None = min(keys, key=lambda place: (place.line, place.column), default=None)
    if first is None or (parent.place.line, parent.place.column) > (first.line, first.column):
        return None
    line = first.source.lines[first.line][: first.column]
    # blanks and dashes alone mean block style; otherwise the key stands in a flow mapping, after its brace
    block = re.fullmatch(r"[\s-]*", line) is not None
    return _Edit(
        first.line,
        first.column,
        0,
        f"{name}: {text}\n{' ' * first.column}" if block else f"{name}: {text}, ",
    )
