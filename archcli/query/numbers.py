"""Numbers of a condition: its sides as expressions; an amount takes the unit of the figure it bounds."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from archcli.errors import ArchError, quote, shorten
from archcli.query.expression import (
    NAME,
    NUMBER,
    Call,
    Expression,
    Parser,
    Phrase,
    StackStep,
    Token,
    expression_of,
)
from archcli.query.vocabulary import FigureName, Vocabulary
from archcli.units import parse_count, parse_decimal, parse_exact_bytes, parse_quotient, parse_seconds

SIGNS = ("=", "!=", "<", "<=", ">", ">=", "~")
"""Comparison signs as messages list them; == is = and `in` takes a range."""

# `in` as a word alone, not within `min` or `x.in`
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
    places = list(_outside(phrase, within, signs))
    starts = [within.start, *(sign.end for sign in places)]
    ends = [*(sign.start for sign in places), within.end]
    return [span(phrase, *pair) for pair in zip(starts, ends, strict=True)], places


def _outside(phrase: Phrase, within: TextSpan, signs: re.Pattern[str]) -> Iterator[TextSpan]:
    depth = 0
    for match in signs.finditer(phrase.text, within.start, within.end):
        if match[0] in "()":
            depth += 1 if match[0] == "(" else -1
        # below 0 as well: the parser complains of the stray parenthesis, with a caret
        elif depth <= 0:
            yield TextSpan(match[0], match.start())


WORDS = {"text": "text", "flag": "true or false", "date": "a date"}
"""Units of values that are no numbers, as messages name them."""
ALONE = {"text": "series=llama", "flag": "tied=yes", "date": "released>=2024"}
"""How values of these units are compared."""


def _count(text: str) -> tuple[int, int]:
    return parse_count(text), 1


def _number(text: str) -> tuple[int, int]:
    return parse_decimal(text) if text[-1].isdigit() else _count(text)


READ: dict[str, Callable[[str], tuple[int, int]]] = {
    "": parse_quotient,
    "bytes": parse_exact_bytes,
    "number": _number,
    "seconds": parse_seconds,
    **dict.fromkeys(("share", "fine_share", "ratio", "bits"), parse_decimal),
}
"""Reader of an amount, by the unit of the value that it bounds; for other units it is a count."""


class Side(NamedTuple):
    """A side of a comparison, or an end of `middle±tolerance`: `middle - tolerance`."""

    middle: TextSpan
    sign: str = ""
    tolerance: TextSpan | None = None


class NumberReader:
    """Reads the sides of a condition on numbers; `spans` are all of them.

    Where each is a name or one amount, amounts are read in the unit of the names; in arithmetic as counts.
    """

    def __init__(self, phrase: Phrase, vocabulary: Vocabulary, spans: Sequence[TextSpan]) -> None:
        self.phrase, self.vocabulary = phrase, vocabulary
        terms = [vocabulary.find(side.text) for side in spans]
        plain = all(term or _is_plain(side) for term, side in zip(terms, spans, strict=True))
        self.unit = next((term.unit for term in terms if term), "") if plain else ""
        self.units = {term.unit for term in terms if term}
        self.unclear: list[Token] = []

    def expression(self, side: Side) -> Expression:
        """The expression of a side."""
        steps, text = self._steps(side.middle), side.middle.text
        if side.tolerance is not None:
            text += f" {side.sign} {side.tolerance.text}"
            steps += (*self._width(steps, side.tolerance), StackStep(side.sign))
        return expression_of(text, steps, f"{self.phrase.lead}{shorten(self.phrase.text)}")

    def _width(self, middle: tuple[StackStep, ...], tolerance: TextSpan) -> tuple[StackStep, ...]:
        """The steps of a tolerance, which may be a share of the middle."""
        if tolerance.text.endswith("%") and _is_plain(tolerance):
            over, under = parse_decimal(tolerance.text)
            if over > under:
                hint = f"write {tolerance.text.rstrip(' %')} for an amount, or a share such as 1%"
                raise self._fault(tolerance, f"{quote(tolerance.text)} is more than 100%", hint)
            # the middle is worked out once more, as a stack has no names
            return (*middle, StackStep("number", number=(over, under)), StackStep("*"))
        return self._steps(tolerance)

    def require_clear_amounts(self) -> None:
        """Raise where 8B may be a billion or bytes: in arithmetic with bytes."""
        # asked when all sides are read, as the one in bytes may be the last
        for token in self.unclear if "bytes" in self.units else ():
            number = token.text.rstrip(" Bb")
            hint = f"write {number}e9, or {number} for bytes"
            raise self.phrase.fault_at(token, f"{quote(token.text)} may be billions or bytes", hint)

    def _steps(self, side: TextSpan) -> tuple[StackStep, ...]:
        term = self.vocabulary.find(side.text)
        if term:
            return (StackStep("figure", self._key(Token("name", *side), term)),)
        # a word near a known name is a slip, for which the parser suggests that name
        if self.unit and _is_plain(side) and not self.vocabulary.near(side.text):
            return (StackStep("number", number=self._amount(side)),)
        parser = Parser(self.phrase, self._number, self._name, self._call, span=(side.start, side.end))
        return parser.whole()

    def _amount(self, side: TextSpan) -> tuple[int, int]:
        try:
            return READ.get(self.unit, _count)(side.text)
        except ArchError as error:
            raise self._fault(side, error.problems[0].what, error.problems[0].hint) from None

    def _fault(self, side: TextSpan, what: str, hint: str) -> ArchError:
        return self.phrase.fault(side.start, len(side.text), what, hint)

    def _number(self, token: Token) -> tuple[int, int]:
        if re.fullmatch(r"[\d_.]+ ?[Bb]", token.text):
            self.unclear.append(token)
        return parse_quotient(token.text)

    def _name(self, token: Token) -> str:
        term = self.vocabulary.find(token.text)
        if term is None:
            raise self.phrase.fault_at(token, *self.vocabulary.unknown(token.text))
        return self._key(token, term)

    def _key(self, token: Token, term: FigureName) -> str:
        if term.unit in WORDS:
            hint = f"it is compared alone, on the left: {ALONE[term.unit]}"
            raise self.phrase.fault_at(token, f"{term.key} is {WORDS[term.unit]}, and no number", hint)
        self.units.add(term.unit)
        return term.key

    def _call(self, token: Token, call: Call) -> Call:
        term = self.vocabulary.find_call(call)
        if term is None and self.vocabulary.find(call.name):
            raise self.phrase.fault_at(token, f"{quote(call.name)} takes no settings", "leave them out")
        if term is None:
            raise self.phrase.fault_at(token, *self.vocabulary.unknown(call.name))
        self.units.add(term.unit)
        return call


def _is_plain(side: TextSpan) -> bool:
    return bool(re.fullmatch(f"{NUMBER}|{NAME}", side.text, re.ASCII))
