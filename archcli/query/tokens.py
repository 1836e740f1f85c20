"""Tokens of conditions and expressions, each with its place in the text."""

from __future__ import annotations

import re
from typing import NamedTuple

from archcli.errors import ArchError, Mark, Problem
from archcli.wording import describe_value

LONGEST = 1000
"""Characters of an expression or condition that anybody writes."""

UNIT = r" ?%|[A-Za-z]+| ?[µ\u03bc]s| [KMGTPEkmgtpe]?i?[Bb]\b| [KMGT]i?\b| k\b| (?:[mun]?s|min|h|d)\b"
NUMBER = rf"\d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d+)?(?:{UNIT})?"
"""A number with its unit, which a blank may part from it where that is no name: 25 %, 2 KiB, 7 B, 7 ms."""
NAME = r"[A-Za-z_]\w*(?:\.\w+)*"
TOKEN = re.compile(rf"(?P<number>{NUMBER})|(?P<name>{NAME})|(?P<sign>\.\.|\+-|//|[-+*/()@,=±])", re.ASCII)
SETTING = re.compile(r"\s*(?P<key>[A-Za-z]\w*)\s*=(?P<value>[^,()=<>'\"`]*)", re.ASCII)


class Token(NamedTuple):
    """A piece of an expression: its kind (number, name, sign or end), its text and where it starts."""

    kind: str
    text: str
    start: int


class Phrase(NamedTuple):
    """The text of an expression or condition, and what stands before it on its line: `--where `."""

    text: str
    lead: str = ""

    def fault(self, start: int, width: int, what: str, hint: str = "") -> ArchError:
        """An error whose caret is below these characters."""
        file = self.lead.split(maxsplit=1)[0] if self.lead.strip() else "expression"
        mark = Mark(file, 1, len(self.lead) + start + 1, f"{self.lead}{self.text}", max(1, width))
        return ArchError(Problem(what, hint, mark))

    def fault_at(self, token: Token, what: str, hint: str = "") -> ArchError:
        """An error whose caret is below a token."""
        return self.fault(token.start, len(token.text), what, hint)


class Scanner:
    """Reads a phrase token by token, from `start` up to `end`.

    Raises ArchError for a text that is too long, or characters that no expression has.
    """

    def __init__(self, phrase: Phrase, start: int = 0, end: int | None = None) -> None:
        self.phrase, self.position = phrase, start
        self.end = len(phrase.text) if end is None else end
        if len(phrase.text) > LONGEST:
            raise phrase.fault(LONGEST, 1, f"longer than {LONGEST:,} characters", "write it shorter")

    def peek(self) -> Token:
        """The next token, which stays the next."""
        text = self.phrase.text
        start = self.position
        while start < self.end and text[start].isspace():
            start += 1
        if start >= self.end:
            return Token("end", "", start)
        match = TOKEN.match(text, start, self.end)
        if match is None:
            hint = "an expression has numbers, names, + - * / // @ and ( )"
            raise self.phrase.fault(start, 1, f"unexpected {describe_value(text[start])}", hint)
        return Token(match.lastgroup or "", match[0], start)

    def take(self) -> Token:
        """The next token; then the one behind it is the next."""
        token = self.peek()
        self.position = token.start + len(token.text)
        return token

    def take_sign(self, *signs: str) -> Token | None:
        """The next token if it is one of these signs."""
        token = self.peek()
        return self.take() if token.kind == "sign" and token.text in signs else None

    def take_setting(self) -> tuple[str, str, Token]:
        """(key, value, the key's token) of the setting of a figure, such as `context=32768`."""
        match = SETTING.match(self.phrase.text, self.position, self.end)
        if match is None or not match["value"].strip():
            place = self.peek()
            hint = "settings are NAME=VALUE: kv_bytes(context=32768)"
            raise self.phrase.fault_at(place, "not a setting", hint)
        self.position = match.end()
        return match["key"], match["value"].strip(), Token("name", match["key"], match.start("key"))
