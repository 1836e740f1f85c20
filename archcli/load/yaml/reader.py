"""Parse YAML text to a tree of nodes, from PyYAML's events, with scalars by YAML 1.2.

What an unquoted YAML scalar means: the core schema of YAML 1.2.2, section 10.3.2. So `1e-5` is a number and
`no` is text. One thing is added: digits may be grouped, 8_030_261_248.

Refused are aliases that multiply, duplicate and merge keys, tags, and what is too deep or too large. What the
keys mean is no business of this file.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import yaml as pyyaml

from archcli.errors import ArchError, Problem, quote
from archcli.load.yaml.nodes import MOST_PROBLEMS, Node, Place, Source, shown
from archcli.load.yaml.text import Text

NULLS = {"", "~", "null", "Null", "NULL"}
BOOLEANS = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
OLD_BOOLEANS = {"yes": "true", "on": "true", "y": "true", "no": "false", "off": "false", "n": "false"}
"""What YAML 1.1 took for booleans and 1.2 takes for text."""

NAN = {".nan", ".NaN", ".NAN"}
INFINITY = {".inf", ".Inf", ".INF"}
# characters: int() takes a time of the square of the digits
LONGEST_NUMBER = 40
_BEGINNINGS = frozenset("+-.0123456789")
_NUMERIC = frozenset("+-.0123456789_eE")
_BASES = {"0o": 8, "0x": 16}


def resolve(text: str) -> bool | int | float | str | None:
    """None, a boolean, a whole or a real number, or the text itself.

    OverflowError for a number of more digits than any size has.
    """
    if text in NULLS:
        return None
    # most scalars are words: one look at the first character settles them
    if text[0] not in _BEGINNINGS:
        return BOOLEANS.get(text, text)
    number = _number(text)
    return text if number is None else number


def _number(text: str) -> int | float | None:
    base = _BASES.get(text[:2])
    # float() takes blanks, `nan`, `infinity` and digits of other scripts, none of which YAML means by a
    # number
    if base is None and not _NUMERIC.issuperset(text):
        return _infinity_or_nan(text)
    try:
        number = float(text) if base is None else 0.0
    except ValueError:
        return None
    # int() of thousands of digits takes quadratic time, and raises ValueError beyond 4,300
    if len(text) > LONGEST_NUMBER:
        raise OverflowError(f"a number of {len(text):,} characters")
    try:
        return int(text[2:], base) if base else int(text)
    except ValueError:
        return None if base else number


def _infinity_or_nan(text: str) -> float | None:
    sign = -1.0 if text[0] == "-" else 1.0
    bare = text[1:] if text[0] in "+-" else text
    if bare in INFINITY:
        return sign * math.inf
    return math.nan if text in NAN else None


QUOTE = "put text that holds ': ' in quotes, and check the indentation"
INDENT = "check the indentation of this line"

SAYS = {
    "mapping values are not allowed": ("a ':' is out of place here", QUOTE),
    "did not find expected key": ("expected another key here", INDENT),
    "expected <block end>, but found": ("expected another key here", INDENT),
    "did not find expected '-'": ("expected another '- ' here", INDENT),
    "did not find expected ',' or ']'": ("this list is not closed", "it ends with ]"),
    "expected ',' or ']'": ("this list is not closed", "it ends with ]"),
    "did not find expected ',' or '}'": ("this mapping is not closed", "it ends with }"),
    "expected ',' or '}'": ("this mapping is not closed", "it ends with }"),
    "found unexpected end of stream": ("this quote is not closed", ""),
    "could not find expected ':'": ("this line is no `key: value`", "a key is followed by ': '"),
    "tab character that violates": ("a tab in the indentation", "indent with spaces"),
    "found character '\\t'": ("a tab in the indentation", "indent with spaces"),
    "expected <document start>": ("a second document begins here", "a file holds one model"),
    "did not find expected <document start>": ("a second document begins here", "a file holds one model"),
    "incompatible YAML document": (
        "this version of YAML is not read",
        "write %YAML 1.2, or leave the line out",
    ),
}
"""Part of what the parser says (libyaml and PyYAML's own differ a little): what we say, and the hint."""


def explained(error: Any, source: Source) -> Problem:
    """A PyYAML MarkedYAMLError as a problem."""
    said = str(error.problem)
    what, hint = next((ours for theirs, ours in SAYS.items() if theirs in said), (f"not YAML: {said}", ""))
    # an open bracket is noticed at the end of the file: the message points to where it was opened
    begun = error.context_mark if "not closed" in what else None
    mark = begun or error.problem_mark or error.context_mark
    if mark is None:
        return Problem(what, hint, path=source.name)
    # the end of the stream lies on a line after the last
    line = min(mark.line, len(source.lines) - 1)
    column = (
        mark.column + (0 if mark.line else source.shift) if line == mark.line else len(source.lines[line])
    )
    odd = source.lines[line][column : column + 1]
    if "cannot start any token" in said and odd != "\t":
        what, hint = f"a value cannot begin with {odd}", "put it in quotes"
    elif "cannot start any token" in said:
        what, hint = SAYS["found character '\\t'"]
    return Problem(what, hint, Place(source, line, column).mark())


# aliases count once for each use, which stops a "billion laughs" of nested aliases
MOST_NODES = 20_000
# bounds of what a stranger's file may cost; real ones stay far below
MOST_KEYS = 200
DEEPEST = 32
TOO_DEEP = "maximum nesting depth"
"""Part of what libyaml says from 0.2.6 on, ahead of the events: our own limit stands in the text before."""
LONGEST_TEXT = 500

SHARING = "what all groups share may be said once, under a top-level `layer`"


class Document(NamedTuple):
    """The result of parsing: the tree, or None, and all problems."""

    source: Source
    root: Node | None
    problems: list[Problem]


def parse(text: Text) -> Document:
    """Parse the one document of a text.

    ArchError where it cannot be read on; other mistakes are collected beside the tree.
    """
    return _YamlReader(text.source).read(text.content)


class _OpenCollection:
    """A list or mapping whose end has not been read yet.

    `key` waits for its value; it is None too where the value is dropped.
    """

    __slots__ = ("anchor", "awaits_value", "key", "keys", "node")

    def __init__(self, node: Node, anchor: str | None) -> None:
        self.node, self.anchor = node, anchor
        self.key: Node | None = None
        self.awaits_value = False
        self.keys: dict[str, Place] = {}


class _YamlReader:
    """Builds the tree on an explicit stack: nesting and aliases cannot exhaust Python's or C's stack."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.problems: list[Problem] = []
        self.stack: list[_OpenCollection] = []
        self.anchors: dict[str, Node | None] = {}
        self.root: Node | None = None
        self.nodes = 0

    def read(self, text: str) -> Document:
        # PyYAML may be built without libyaml; its own Loader makes the same events, but slower
        loader = getattr(pyyaml, "CLoader", pyyaml.Loader)(text)
        take = {
            pyyaml.ScalarEvent: self._scalar,
            pyyaml.AliasEvent: self._alias,
            pyyaml.MappingStartEvent: self._open,
            pyyaml.SequenceStartEvent: self._open,
            pyyaml.MappingEndEvent: self._close,
            pyyaml.SequenceEndEvent: self._close,
            pyyaml.DocumentStartEvent: self._document,
        }
        try:
            while (event := loader.get_event()) is not None:
                if handler := take.get(type(event)):
                    handler(event)
        except pyyaml.MarkedYAMLError as error:
            if error.problem_mark and TOO_DEEP in str(error.problem):
                return _YamlReader(self.source).read(text[: error.problem_mark.index])
            self.problems.append(explained(error, self.source))
            raise ArchError(self.problems) from None
        except pyyaml.YAMLError as error:
            raise ArchError([*self.problems, Problem(f"not YAML: {error}", path=self.source.name)]) from None
        finally:
            loader.dispose()
        return Document(self.source, self.root, self.problems)

    def _document(self, event: Any) -> None:
        if self.root is not None:
            self._stop("a second document begins here", "a file holds one model", self._place(event))

    def _scalar(self, event: Any) -> None:
        place = self._place(event)
        self._refuse_tag(event, place)
        value, text = event.value, ""
        # true of unquoted scalars alone: quoted text stays text, whatever it reads as
        if event.implicit[0]:
            text = value
            try:
                value = resolve(text)
            except OverflowError as error:
                self._problem(str(error), "no size is that large", place)
                # a stand-in of the right kind, so that the field is not reported a second time
                value = 1
        if isinstance(value, str):
            self._check_text(value, place)
        self._count(1, place)
        self._add(Node(value, place, text=text), event.anchor)

    def _alias(self, event: Any) -> None:
        place, name = self._place(event), event.anchor
        if name not in self.anchors:
            self._problem(f"*{name} refers to nothing", f"no value before it is marked &{name}", place)
            self._add(Node(None, place), None)
            return
        node = self.anchors[name]
        if node is None:
            self._stop(f"*{name} refers to itself", "a value cannot contain itself", place)
        else:
            self._count(node.size, place)
            self._add(node.named(None), None)

    def _open(self, event: Any) -> None:
        place = self._place(event)
        self._refuse_tag(event, place)
        if len(self.stack) >= DEEPEST:
            self._stop(f"nested deeper than {DEEPEST} levels", "an architecture needs about ten", place)
        self._count(1, place)
        if event.anchor:
            # None until the collection is closed, by which an alias inside it is known as a cycle
            self.anchors[event.anchor] = None
        self.stack.append(
            _OpenCollection(
                Node({} if isinstance(event, pyyaml.MappingStartEvent) else [], place), event.anchor
            )
        )

    def _close(self, event: Any) -> None:
        done = self.stack.pop()
        self._add(done.node, done.anchor)

    def _count(self, new: int, place: Place) -> None:
        self.nodes += new
        if self.nodes > MOST_NODES:
            self._stop(f"more than {MOST_NODES:,} values", "aliases count as often as they are used", place)

    def _add(self, node: Node, anchor: str | None) -> None:
        """Add a finished node to the innermost open list or mapping."""
        if anchor:
            self.anchors[anchor] = node
        if not self.stack:
            self.root = node
            return
        parent = self.stack[-1]
        parent.node.size += node.size
        if isinstance(parent.node.value, list):
            parent.node.value.append(node)
        elif parent.awaits_value:
            self._value(parent, node)
        else:
            parent.key, parent.awaits_value = self._key(parent, node), True

    def _value(self, parent: _OpenCollection, node: Node) -> None:
        if parent.key is not None:
            parent.node.value[parent.key.value] = node.named(parent.key.place)
        parent.awaits_value = False

    def _key(self, parent: _OpenCollection, node: Node) -> Node | None:
        """The node if it is a valid key here; else report a problem and return None."""
        if not isinstance(node.value, str):
            self._problem(f"a key must be text, not {shown(node)}", "", node.place)
            return None
        # a quoted "<<" has no text, and is a key like any other
        if node.value == "<<" and node.text:
            self._problem("merge keys (<<) are not part of YAML 1.2", SHARING, node.place)
            return None
        if len(parent.keys) >= MOST_KEYS:
            self._stop(
                f"more than {MOST_KEYS} keys in one mapping", "an architecture needs about ten", node.place
            )
        first = parent.keys.get(node.value)
        if first is not None:
            where = (
                f"line {first.line + 1}" if first.line != node.place.line else f"column {first.column + 1}"
            )
            self._problem(f"duplicate key {quote(node.value)}", f"it is already at {where}", node.place)
            return None
        parent.keys[node.value] = node.place
        # a block mapping has no sign of its own and begins at its first key: the caret gets that key's width
        if len(parent.keys) == 1 and parent.node.place[1:3] == node.place[1:3]:
            parent.node.place = node.place
        return node

    def _refuse_tag(self, event: Any, place: Place) -> None:
        if event.tag is not None:
            tag = event.tag.replace("tag:yaml.org,2002:", "!!")
            self._problem(f"a tag, {quote(tag)}", "values are written without tags", place)

    def _check_text(self, text: str, place: Place) -> None:
        if len(text) > LONGEST_TEXT:
            self._problem(f"a text of {len(text):,} characters", f"{LONGEST_TEXT} are enough", place)
        if not text.isprintable():
            odd = next(c for c in text if not c.isprintable())
            if odd == "\n":
                self._problem("a line break in a text", "write it on one line", place)
            else:
                self._problem(f"an invisible character, U+{ord(odd):04X}", "remove it", place)

    def _place(self, event: Any) -> Place:
        start, end = event.start_mark, event.end_mark
        shift = 0 if start.line else self.source.shift
        width = (
            end.column - start.column
            if start.line == end.line
            # a scalar of several lines is marked to the end of its first
            else len(self.source.lines[start.line]) - start.column - shift
        )
        return Place(self.source, start.line, start.column + shift, max(1, width))

    def _problem(self, what: str, hint: str, place: Place) -> None:
        self.problems.append(Problem(what, hint, place.mark()))
        if len(self.problems) >= MOST_PROBLEMS:
            raise ArchError(self.problems)

    def _stop(self, what: str, hint: str, place: Place) -> None:
        self.problems.append(Problem(what, hint, place.mark()))
        raise ArchError(self.problems)
