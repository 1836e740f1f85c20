"""The YAML parser's own errors in plain words."""

from __future__ import annotations

from typing import Any

from archcli.errors import Problem
from archcli.load.yaml.nodes import Place, Source

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
    begun = error.context_mark if "not closed" in what else None
    mark = begun or error.problem_mark or error.context_mark
    if mark is None:
        return Problem(what, hint, path=source.name)
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
