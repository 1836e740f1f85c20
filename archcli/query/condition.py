"""Conditions such as `params in 7e9±1%` and `100 <= aspect_ratio <= 150`, parsed into tests.

    condition = expression sign expression {sign expression} | expression "in" range
    range     = expression ".." expression | expression ("±" | "+-") (expression | share)
    sign      = "=" | "!=" | "<" | "<=" | ">" | ">=" | "~"

Bounds of a range belong to it. A text, a flag or a date stands alone on the left: `pattern~window`,
`tied=yes`, `released>=2024-07`; `=none` asks whether a value is missing. Numbers are compared exactly.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from operator import eq, ge, gt, le, lt, ne
from typing import Any, NamedTuple, TypeAlias

from archcli.errors import ArchError, quote, shorten
from archcli.query.expression import LONGEST, Call, Expression, Phrase
from archcli.query.numbers import COMPARING, RANGING, SIGNS, NumberReader, Side, TextSpan, cut, span
from archcli.query.quotient import compared
from archcli.query.vocabulary import FigureName, Vocabulary

Reader: TypeAlias = Callable[[str | Call], Any]
"""Gives the value of a name or call: a number, an array [N] of candidates, a text, a flag, a date or None."""

COMPARES: dict[str, Callable[[Any, Any], Any]] = {
    "=": eq,
    "==": eq,
    "!=": ne,
    "<": lt,
    "<=": le,
    ">": gt,
    ">=": ge,
}
MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


class NumberTest(NamedTuple):
    """Two expressions compared: exactly, unless one of them is a real number."""

    left: Expression
    sign: str
    right: Expression

    @property
    def reads(self) -> tuple[str | Call, ...]:
        """The names and calls it asks for."""
        return (*self.left.names, *self.left.calls, *self.right.names, *self.right.calls)

    def holds(self, of: Reader) -> Any:
        """Whether it holds: a bool, or an array [N] of them. A missing figure differs from every number."""
        if any(of(what) is None for what in self.reads):
            return self.sign == "!="
        return COMPARES[self.sign](*compared(self.left.exact(of), self.right.exact(of)))


class TextTest(NamedTuple):
    """A text compared with a word, in any case; `~` tests for a part of the text."""

    key: str
    sign: str
    bound: str

    @property
    def reads(self) -> tuple[str | Call, ...]:
        """The name it asks for."""
        return (self.key,)

    def holds(self, of: Reader) -> bool:
        """Whether it holds; a missing text has no word."""
        value = of(self.key)
        if value is None:
            return self.sign == "!="
        text = str(value).lower()
        if self.sign == "~":
            return self.bound in text
        kinds = text.replace(",", " ").split()  # of "image, video" each
        return (self.bound in {text, *kinds}) == (self.sign != "!=")


class FlagTest(NamedTuple):
    """A flag that is true or false."""

    key: str
    sign: str
    bound: bool

    @property
    def reads(self) -> tuple[str | Call, ...]:
        """The name it asks for."""
        return (self.key,)

    def holds(self, of: Reader) -> bool:
        """Whether it holds; a missing flag is neither."""
        value = of(self.key)
        return self.sign == "!=" if value is None else (value == self.bound) == (self.sign != "!=")


class DateTest(NamedTuple):
    """A year, or a year and a month, compared: 2024 is any month of it."""

    key: str
    sign: str
    bound: str

    @property
    def reads(self) -> tuple[str | Call, ...]:
        """The name it asks for."""
        return (self.key,)

    def holds(self, of: Reader) -> bool:
        """Whether it holds; a missing date differs from every date."""
        value = of(self.key)
        if value is None:
            return self.sign == "!="
        # ISO dates compare as text, as far as both are given
        shared = min(len(str(value)), len(self.bound))
        return bool(COMPARES[self.sign](str(value)[:shared], self.bound[:shared]))


class MissingTest(NamedTuple):
    """A test whether a value is missing."""

    key: str
    sign: str

    @property
    def reads(self) -> tuple[str | Call, ...]:
        """The name it asks for."""
        return (self.key,)

    def holds(self, of: Reader) -> bool:
        """Whether it holds."""
        return (of(self.key) is None) == (self.sign != "!=")


Test: TypeAlias = NumberTest | TextTest | FlagTest | DateTest | MissingTest


EQUAL = {"=", "==", "!="}
FLAGS = {"true": True, "false": False, "yes": True, "no": False}
NOTHING = "none"
DATE = re.compile(r"[12]\d{3}(-(0[1-9]|1[0-2]))?", re.ASCII)
A_DATE = "write a year, or a year and a month from 01 to 12: 2024-07"
EXAMPLES = "write a comparison or a range: params>10B, series=llama, params in 7e9±1%"


def unfit(sign: str, unit: str) -> tuple[str, str] | None:
    """(problem, hint) where a comparison sign does not fit values of a unit."""
    if unit == "text":
        return None if sign in {*EQUAL, "~"} else ("is text", "use =, != or ~")
    if sign == "~":
        return "is no text", f"use one of {' '.join(SIGNS[:-1])}"
    return None if unit != "flag" or sign in EQUAL else ("is true or false", "use = or !=")


def signs_of(unit: str) -> list[str]:
    """The comparison signs that a condition on values of this unit may have."""
    return [sign for sign in SIGNS if unfit(sign, unit) is None]


class ConditionReader:
    """Reads one condition: its `sides`, the `signs` between them, the unit of its numbers."""

    def __init__(self, phrase: Phrase, vocabulary: Vocabulary) -> None:
        if len(phrase.text) > LONGEST:
            raise phrase.fault(LONGEST, 1, f"longer than {LONGEST:,} characters", "write it shorter")
        self.phrase, self.vocabulary = phrase, vocabulary
        self.whole = span(phrase, 0, len(phrase.text))
        self.sides, self.signs = cut(phrase, self.whole, COMPARING)

    def tests(self) -> list[Test]:
        """The tests that must all hold."""
        term = self.vocabulary.find(self.sides[0].text) if self.signs else None
        if term and (term.unit in {"text", "flag"} or self._asks_for_nothing()):
            return [self._of_words(term, self.signs[0])]
        if not self.signs or not all(side.text for side in self.sides):
            raise self._fault(self.whole, f"{quote(self.whole.text)} is not a condition", EXAMPLES)
        pairs = list(self._pairs())
        terms = [self.vocabulary.find(side.text) for side in self.sides]
        if any(term and term.unit == "date" for term in terms):
            dates = [self._of_date(*pair) for pair in pairs]
            return self._of_dates(dates)
        return self._of_numbers(pairs)

    def _asks_for_nothing(self) -> bool:
        equal = len(self.signs) == 1 and self.signs[0].text in EQUAL
        return equal and self.sides[1].text.lower() == NOTHING

    def _of_words(self, term: FigureName, sign: TextSpan) -> Test:
        """The test of a text or a flag, or for a missing value."""
        # all that follows is the value, further signs included
        value = span(self.phrase, sign.end, self.whole.end)
        if not value.text or value.text[0] in "<>=!~":
            raise self._fault(self.whole, f"{quote(self.whole.text)} is not a condition", EXAMPLES)
        self._require_fit(sign, term.key, term.unit)
        if value.text.lower() == NOTHING and sign.text in EQUAL:
            return MissingTest(term.key, sign.text)
        if term.unit == "text":
            return TextTest(term.key, sign.text, value.text.lower())
        if value.text.lower() not in FLAGS:
            raise self._fault(value, f"{quote(value.text)} is neither true nor false")
        return FlagTest(term.key, sign.text, FLAGS[value.text.lower()])

    def _require_fit(self, sign: TextSpan, name: str, unit: str) -> None:
        problem = unfit(sign.text, unit)
        if problem:
            raise self._fault(sign, f"{name} {problem[0]}", problem[1])

    def _pairs(self) -> Iterator[tuple[Side, str, Side]]:
        """(side, sign, side) of neighbours in a chain of comparisons, or of a range."""
        for sign, side in zip(self.signs, self.sides, strict=False):
            term = self.vocabulary.find(side.text) or FigureName(shorten(side.text))
            self._require_fit(sign, term.key, term.unit)
        if all(sign.text != "in" for sign in self.signs):
            pairs = zip(self.sides, self.signs, self.sides[1:], strict=False)
            yield from ((Side(left), sign.text, Side(right)) for left, sign, right in pairs)
        elif len(self.signs) > 1:
            raise self._fault(self.signs[1], "a range is compared with one value", "write two conditions")
        else:
            low, high = self._bounds(self.sides[1])
            yield from ((low, "<=", Side(self.sides[0])), (Side(self.sides[0]), "<=", high))

    def _bounds(self, within: TextSpan) -> tuple[Side, Side]:
        """The ends of a range `low..high`, `middle±tolerance` or `middle+-tolerance`."""
        parts, signs = cut(self.phrase, within, RANGING)
        dots = [sign for sign in signs if sign.text == ".."]
        if dots and len(signs) > 1:  # +- belongs to a bound: 1+-2..3
            parts, signs = [span(self.phrase, within.start, dots[0].start)], dots
            parts.append(span(self.phrase, dots[0].end, within.end))
        if len(signs) != 1 or not all(part.text for part in parts):
            raise self._fault(within, f"{quote(within.text)} is no range", "write 100..150 or 7e9±1%")
        if dots:
            return Side(parts[0]), Side(parts[1])
        return Side(parts[0], "-", parts[1]), Side(parts[0], "+", parts[1])

    def _of_dates(self, tests: list[DateTest]) -> list[Test]:
        """The tests of a chain of dates, or of a range of dates."""
        if self.signs[0].text == "in":
            # a range makes two tests: low <= date and date <= high
            low, high = (test.bound for test in tests)
            if low[: len(high)] > high[: len(low)]:
                raise self._fault(self.sides[1], "no date is in this range", "write the earlier one first")
        return [*tests]

    def _of_date(self, left: Side, sign: str, right: Side) -> DateTest:
        """The test of a date, which stands alone on one side."""
        if (term := self._date(left)) is None:
            # the date stands on the right, as in 2024<=released: both sides change places
            left, right, sign = right, left, MIRRORED.get(sign, sign)
            term = self._date(left)
        bound = right.middle
        if term is None or right.tolerance or not DATE.fullmatch(bound.text):
            wrong = left.middle if term is None else bound
            raise self._fault(wrong, f"{quote(wrong.text)} is not a date", A_DATE)
        return DateTest(term.key, sign, bound.text)

    def _date(self, side: Side) -> FigureName | None:
        term = self.vocabulary.find(side.middle.text)
        return term if term and term.unit == "date" else None

    def _of_numbers(self, pairs: list[tuple[Side, str, Side]]) -> list[Test]:
        numbers = NumberReader(self.phrase, self.vocabulary, self._spans(pairs))
        tests = [NumberTest(numbers.expression(a), sign, numbers.expression(b)) for a, sign, b in pairs]
        numbers.require_clear_amounts()
        if self.signs[0].text == "in":
            self._require_room(tests[0].left, tests[1].right)
        return [*tests]

    def _spans(self, pairs: list[tuple[Side, str, Side]]) -> list[TextSpan]:
        return list(dict.fromkeys(side.middle for left, _, right in pairs for side in (left, right)))

    def _require_room(self, low: Expression, high: Expression) -> None:
        """Raise where no number is in a range of plain numbers."""
        plain = not (low.names or low.calls or high.names or high.calls)
        # there are no names, so that the reader is never called
        if plain and not NumberTest(low, "<=", high).holds(lambda _: None):
            raise self._fault(self.sides[1], "no number is in this range", "write the smaller end first")

    def _fault(self, place: TextSpan, what: str, hint: str = "") -> ArchError:
        return self.phrase.fault(place.start, len(place.text), what, hint)


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on an architecture, or on many candidates at once; all its `tests` must hold.

    `names` and `calls` are what it reads, each once.
    """

    text: str
    names: tuple[str, ...]
    calls: tuple[Call, ...]
    tests: tuple[Test, ...]

    def holds(self, of: Reader) -> Any:
        """Whether it holds: a bool, or of candidates an array [N] of them.

        `of` is asked for the value of every name and call once; None stands for a missing value, which meets
        no condition but `!=` and `=none`. Raises ArchError where an expression has no value.
        """
        read: list[str | Call] = [*self.names, *self.calls]
        values = {what: of(what) for what in read}
        result: Any = True
        for test in self.tests:
            # & and not `and`, as results may be arrays
            result = test.holds(values.__getitem__) & result
        return result


def parse_condition(text: str, vocabulary: Vocabulary | None = None, lead: str = "") -> Condition:
    """Parse a condition; `lead` is what stands before it on its line, such as `--where `.

    The vocabulary says what names stand for; without one each is a number of its own. Raises ArchError with a
    caret at the first mistake.
    """
    tests = ConditionReader(Phrase(text, lead), vocabulary or Vocabulary()).tests()
    read = list(dict.fromkeys(what for test in tests for what in test.reads))
    names = tuple(what for what in read if isinstance(what, str))
    calls = tuple(what for what in read if not isinstance(what, str))
    return Condition(text.strip(), names, calls, tuple(tests))
