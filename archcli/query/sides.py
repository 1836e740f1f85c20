"""Sides of a condition: a text cut at its comparison signs, and the bounds of a range."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from archcli.query.tokens import Phrase

SIGNS = ("=", "!=", "<", "<=", ">", ">=", "~")
"""Comparison signs as messages list them; == is = and `in` takes a range."""

COMPARING = re.compile(r"[()]|[<>=!]=|[<>=~]|(?<![\w.])in(?![\w.])", re.ASCII)
RANGING = re.compile(r"[()]|\.\.|±|\+-")


class TextSpan(NamedTuple):
    """Characters of a phrase, without the blanks around them: the text, and where it starts."""

    text: str
    start: int

    @property
    def end(self) -> int:
        """Where the text behind it starts."""
        return self.start + len(self.text)


def span(phrase: Phrase, start: int, end: int) -> TextSpan:
    """The characters from `start` to `end` without the blanks around them."""
    text = phrase.text[start:end]
    return TextSpan(text.strip(), start + len(text) - len(text.lstrip()))


def cut(phrase: Phrase, within: TextSpan, signs: re.Pattern[str]) -> tuple[list[TextSpan], list[TextSpan]]:
    """(sides, signs) of a span that is cut at signs outside of parentheses."""
    found = list(_outside(phrase, within, signs))
    starts = [within.start, *(sign.end for sign in found)]
    ends = [*(sign.start for sign in found), within.end]
    return [span(phrase, *pair) for pair in zip(starts, ends, strict=True)], found


def _outside(phrase: Phrase, within: TextSpan, signs: re.Pattern[str]) -> Iterator[TextSpan]:
    depth = 0
    for match in signs.finditer(phrase.text, within.start, within.end):
        if match[0] in "()":
            depth += 1 if match[0] == "(" else -1
        elif depth <= 0:
            yield TextSpan(match[0], match.start())
