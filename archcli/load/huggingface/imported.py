"""What stands in a config.json, as the YAML it means; and from a place in that YAML, which nobody has on disk, back to the user's file."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

from archcli.errors import ArchError, Mark, Problem
from archcli.load.huggingface.words import OUR_WORD, THEIRS_ALONE
from archcli.load.yaml.nodes import Node, Place
from archcli.load.yaml.text import Text

NOTHING = object()


class Origin(NamedTuple):
    """The file an imported model was read from: its text, or, of a binary one, what its keys are called there."""

    name: str
    text: Text | None = None
    keys: Mapping[str, str] = {}

    @property
    def as_yaml(self) -> str:
        """What the text in between is called in messages."""
        return f"{self.name} as YAML"

    def problem(self, found: Problem, tree: Node | None) -> Problem:
        """The same problem at the key of the file that it comes from, where there is one."""
        if found.mark is None:
            return self._named(found)
        if found.mark.file != self.as_yaml or tree is None:
            return found
        for key, value in _stated(tree, found.mark):
            if (place := self._place(key, value)) is not None:
                return Problem(found.what, found.hint, place)
            if key in self.keys:
                return Problem(f"{found.what} ({self.keys[key]})", found.hint, path=self.name)
        return found

    def mark(self, mark: Mark, tree: Node) -> Mark:
        """A place in the file for a place in the YAML, which is the answer where the file has none."""
        return self.problem(Problem("", mark=mark), tree).mark or mark

    def _named(self, found: Problem) -> Problem:
        """A problem that speaks of a key of the config.json, with what the file calls it."""
        called = (
            own for key, own in self.keys.items() if re.search(rf"(?<!\w){re.escape(key)}(?!\w)", found.what)
        )
        own = next(called, None)
        return found if own is None else Problem(f"{found.what} ({own})", found.hint, path=found.path)

    def _place(self, key: str, value: Any) -> Mark | None:
        """Where the file says this of this key."""
        if self.text is None:
            return None
        content, decoder = self.text.content, json.JSONDecoder()
        for found in re.finditer(rf'"{re.escape(key)}"\s*:\s*', content):
            try:
                stated, end = decoder.raw_decode(content, found.end())
            except ValueError:  # within a text
                continue
            if stated == value and isinstance(stated, bool) == isinstance(value, bool):
                line, start = content.count("\n", 0, found.end()), content.rfind("\n", 0, found.end()) + 1
                return Place(self.text.source, line, found.end() - start, max(1, end - found.end())).mark()
        return None


def _stated(tree: Node, mark: Mark) -> Iterator[tuple[str, Any]]:
    """The keys that a setting at this place may have in a config.json, and its value."""
    named = _named(tree, mark)
    if named is not None:
        name, node = named
        for key in (*(theirs for theirs, ours in OUR_WORD.items() if ours == name), name):
            yield key, node.value


def _named(node: Node, mark: Mark, key: str = "") -> tuple[str, Node] | None:
    """The scalar whose value or key stands there, and its key."""
    if isinstance(node.value, dict):
        return next((found for name, item in node.value.items() if (found := _named(item, mark, name))), None)
    if isinstance(node.value, list):
        return next((found for item in node.value if (found := _named(item, mark))), None)
    places = {(place.line + 1, place.column + 1) for place in (node.place, node.key) if place is not None}
    return (key, node) if key and (mark.line, mark.column) in places else None


def is_foreign(keys: Collection[str]) -> bool:
    """Whether these are the keys of a config.json of Hugging Face."""
    return not {"groups", "kind"}.intersection(keys) and bool(THEIRS_ALONE.intersection(keys))


def config_of(text: Text) -> Any:
    """The data of a config.json, or None for another text. It is read before the YAML, whose limits are those of our own files."""
    if not text.content.lstrip().startswith("{"):
        return None
    named = [key for key in ("groups", "kind", *THEIRS_ALONE) if f'"{key}"' in text.content]
    try:
        data = json.loads(text.content)
    except (ValueError, RecursionError) as error:
        if is_foreign(named):
            raise _no_json(text, error) from None
        return None
    return data if is_foreign(data) else None


def _no_json(text: Text, error: Exception) -> ArchError:
    """What is said of a config.json that is none."""
    if isinstance(error, json.JSONDecodeError):
        what = f"a config.json has to be JSON: {error.msg.removesuffix(' at')}"
        return ArchError(Problem(what, "", Place(text.source, error.lineno - 1, error.colno - 1).mark()))
    what = "nested too deep" if isinstance(error, RecursionError) else "a number of thousands of digits"
    return ArchError(Problem(f"{what}; no config.json is like that", path=text.source.name))
