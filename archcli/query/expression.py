"""Expressions on figures, such as `8/3*d_model@128`: their tokens, parser and values.

The grammar, in order of precedence:

rounded  = sum ["@" factor]
sum      = product {("+" | "-") product}
product  = factor {("*" | "/" | "//") factor}
factor   = {"-" | "+"} (number | name | name "(" settings ")" | "(" rounded ")")
settings = [key "=" value {"," key "=" value}]

Numbers are written as people write them (4096, 8k, 7e9, 70B, 1GiB, 25%), names may have dots, and figures may
have settings. `+ - * / //` and parentheses are as usual; division is exact. `EXPRESSION@128` is the nearest
multiple of 128, halves upwards, at least 128; it rounds all that is before it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from archcli.arith import Number
from archcli.errors import ArchError, Mark, Problem, describe_value, quote
from archcli.query.quotient import Quotient, quotient
from archcli.units import parse_quotient

LONGEST = 1000
"""Characters of an expression or condition that anybody writes."""

# both signs for micro: U+00B5 of keyboards, and the Greek letter that NFKC makes of it
UNIT = r" ?%|[A-Za-z]+| ?[µ\u03bc]s| [KMGTPEkmgtpe]?i?[Bb]\b| [KMGT]i?\b| k\b| (?:[mun]?s|min|h|d)\b"
NUMBER = rf"\d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d+)?(?:{UNIT})?"
"""A number with its unit, with or without a blank: 25 %, 2 KiB, 7 B, 7 ms."""
NAME = r"[A-Za-z_]\w*(?:\.\w+)*"
# longer signs come first: an alternation takes the first that fits
TOKEN = re.compile(rf"(?P<number>{NUMBER})|(?P<name>{NAME})|(?P<sign>\.\.|\+-|//|[-+*/()@,=±])", re.ASCII)
SETTING = re.compile(r"\s*(?P<key>[A-Za-z]\w*)\s*=(?P<value>[^,()=<>'\"`]*)", re.ASCII)


class Token(NamedTuple):
    """A piece of an expression: its kind (number, name, sign or end), its text and where it starts."""

    kind: str
    text: str
    start: int


class Phrase(NamedTuple):
    """The text of an expression or condition, and the text before it on its line: `--where `."""

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


# the parser has six frames for each, and Python 1,000 in all
DEEPEST = 50
"""Parentheses inside each other that anybody writes."""

BETWEEN = "write one of + - * / // @ between numbers and names"
APART = "write each condition by itself: all must hold"
MISSING = "write one there, or an expression in parentheses"


class FigureCall(NamedTuple):
    """A figure with settings, `kv_bytes(context=32768)`: its name and (key, value) pairs by key."""

    name: str
    settings: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        return f"{self.name}({', '.join(f'{key}={value}' for key, value in self.settings)})"


Call: TypeAlias = FigureCall
"""Short name of FigureCall."""


class StackStep(NamedTuple):
    """One step of working an expression out on a stack.

    `sign` is `number`, which puts `number` (numerator, denominator) on the stack; `figure`, which puts the
    value of `what` there; `negative`; or an operator of the two topmost numbers.
    """

    sign: str
    what: str | Call = ""
    number: tuple[int, int] = (0, 1)


class Parser:
    """Parses the expressions of a phrase, from `start` up to `end`.

    `read_number` gives the (numerator, denominator) of a token, `read_name` what a name stands for.
    """

    def __init__(
        self,
        phrase: Phrase,
        read_number: Callable[[Token], tuple[int, int]],
        read_name: Callable[[Token], str] = lambda token: token.text,
        read_call: Callable[[Token, Call], Call] = lambda _, call: call,
        *,
        span: tuple[int, int | None] = (0, None),
    ) -> None:
        self.scanner = Scanner(phrase, *span)
        self.read_number, self.read_name, self.read_call = read_number, read_name, read_call
        self.steps: list[StackStep] = []
        self.depth = 0

    def whole(self) -> tuple[StackStep, ...]:
        """The steps of the phrase, which must be one expression and nothing else."""
        self._rounded()
        token = self.scanner.peek()
        if token.kind != "end":
            raise self._unexpected(token)
        return tuple(self.steps)

    def _rounded(self) -> None:
        self._sum()
        if self.scanner.take_sign("@"):
            self._factor()
            self.steps.append(StackStep("@"))
            token = self.scanner.peek()
            if token.text in {"+", "-", "*", "/", "//", "@"}:
                hint = "@ rounds all that is before it; put that in parentheses: (…@128) + …"
                raise self._fault(token, f"{quote(token.text)} behind @", hint)

    def _sum(self) -> None:
        self._product()
        while token := self.scanner.take_sign("+", "-", "+-"):
            self._product()
            # `+-` is one sign because of ranges; between numbers it is a plus and a minus
            self.steps.append(StackStep(token.text.strip("+") or "+"))

    def _product(self) -> None:
        self._factor()
        while token := self.scanner.take_sign("*", "/", "//"):
            self._factor()
            self.steps.append(StackStep(token.text))

    def _factor(self) -> None:
        negative = False
        while token := self.scanner.take_sign("-", "+", "+-"):
            negative ^= "-" in token.text
        self._primary(self.scanner.take())
        self.steps += [StackStep("negative")] * negative

    def _primary(self, token: Token) -> None:
        if token.kind == "number":
            self.steps.append(StackStep("number", number=self._number(token)))
        elif token.kind == "name":
            self.steps.append(StackStep("figure", self._figure(token)))
        elif token.text == "(":
            self._in_parentheses(token)
        else:
            where = f"before {quote(token.text)}" if token.text else "at the end"
            raise self._fault(token, f"a number or a name is missing {where}", MISSING)

    def _number(self, token: Token) -> tuple[int, int]:
        try:
            return self.read_number(token)
        except ArchError as error:
            raise self._fault(token, error.problems[0].what, error.problems[0].hint) from None

    def _in_parentheses(self, opening: Token) -> None:
        self.depth += 1
        if self.depth > DEEPEST:
            raise self._fault(
                opening, f"more than {DEEPEST} parentheses inside each other", "write it flatter"
            )
        self._rounded()
        self._close(opening)
        self.depth -= 1

    def _close(self, opening: Token) -> None:
        token = self.scanner.peek()
        if token.kind == "end":
            raise self._fault(opening, "this parenthesis is not closed", "add )")
        if not self.scanner.take_sign(")"):
            raise self._unexpected(token)

    def _figure(self, token: Token) -> str | Call:
        # so that no name reaches __class__ and its like, whatever looks it up
        if any(part.startswith("_") for part in token.text.split(".")):
            hint = "expressions read figures of models and nothing else"
            raise self._fault(token, f"{quote(token.text)} is no name of a figure", hint)
        opening = self.scanner.take_sign("(")
        return (
            self.read_call(token, Call(token.text, self._settings(opening)))
            if opening
            else self.read_name(token)
        )

    def _settings(self, opening: Token) -> tuple[tuple[str, str], ...]:
        settings: dict[str, str] = {}
        while self.scanner.peek().text != ")":
            key, value, place = self.scanner.take_setting()
            if key in settings:
                raise self._fault(place, f"{quote(key)} is set twice", "leave one out")
            settings[key] = value
            if not self.scanner.take_sign(","):
                break
        self._close(opening)
        # sorted: the order of writing makes no other figure, and so no second count
        return tuple(sorted(settings.items()))

    def _unexpected(self, token: Token) -> ArchError:
        if token.text == ")":
            return self._fault(token, "this parenthesis was never opened", "leave it out, or add (")
        what = (
            f"no operator before {quote(token.text)}"
            if token.kind != "sign"
            else f"unexpected {describe_value(token.text)}"
        )
        joins = token.text in {"and", "or", "not"}
        return self._fault(token, what, APART if joins else BETWEEN)

    def _fault(self, token: Token, what: str, hint: str = "") -> ArchError:
        return self.scanner.phrase.fault_at(token, what, hint)


__all__ = ["Call", "Expression", "parse_expression"]

BINARY: dict[str, Callable[[Quotient, Quotient], Quotient]] = {
    "+": Quotient.__add__,
    "-": Quotient.__sub__,
    "*": Quotient.__mul__,
    "/": Quotient.__truediv__,
    "//": Quotient.__floordiv__,
    "@": Quotient.nearest,
}


@dataclass(frozen=True, slots=True)
class Expression:
    """Arithmetic on named figures.

    `names` are those it reads, `calls` the figures with settings, each once, in the order of reading.
    """

    text: str
    names: tuple[str, ...]
    calls: tuple[Call, ...]
    steps: tuple[StackStep, ...] = field(repr=False)
    place: str = field(default="", repr=False, compare=False)

    @property
    def is_figure(self) -> bool:
        """Whether it is a figure alone, and nothing is worked out."""
        return [step.sign for step in self.steps] == ["figure"]

    def value(self, of: Callable[[str | Call], Number]) -> Number:
        """The number it comes to, `of` being asked for every name and call once.

        Figures are ints, Fractions, floats or numpy arrays [N] of candidates. Whole results are exact: an
        int, or an array of int64, beyond 64 bits of Python's ints. What is not whole is a Fraction, or an
        array of float64. Raises ArchError where a divisor is 0 for any candidate.
        """
        return self.exact(of).number()

    def exact(self, of: Callable[[str | Call], Number]) -> Quotient:
        """The value with numerator and denominator apart; raises as `value` does."""
        read: list[str | Call] = [*self.names, *self.calls]
        figures = {what: self._figure(what, of(what)) for what in read}
        stack: list[Quotient] = []
        try:
            for step in self.steps:
                if step.sign == "number":
                    stack.append(Quotient(*step.number))
                elif step.sign == "figure":
                    stack.append(figures[step.what])
                elif step.sign == "negative":
                    stack.append(-stack.pop())
                else:
                    # the right side was put there last
                    right = stack.pop()
                    stack.append(BINARY[step.sign](stack.pop(), right))
        except ZeroDivisionError:
            raise self._fault("divides by zero", "its divisor must be 0 for no candidate") from None
        except ArchError as error:
            raise self._fault(f"has no value: {error.problems[0].what}", error.problems[0].hint) from None
        return stack.pop()

    def _figure(self, what: str | Call, number: Number) -> Quotient:
        try:
            return quotient(number)
        except TypeError:
            raise self._fault(f"has no value: {what} is no number") from None

    def _fault(self, what: str, hint: str = "") -> ArchError:
        return ArchError(Problem(f"{quote(self.text)} {what}", hint, path=self.place))


def parse_expression(text: str, lead: str = "") -> Expression:
    """Parse an expression; `lead` is what stands before it on its line, such as `--tie d_ff=`.

    Raises ArchError with a caret at the first mistake.
    """
    parser = Parser(Phrase(text, lead), read_number=lambda token: parse_quotient(token.text))
    steps = parser.whole()
    return expression_of(text, steps, lead.rstrip(" ="))


def expression_of(text: str, steps: tuple[StackStep, ...], place: str = "") -> Expression:
    """The expression that these steps work out; messages say its place."""
    read = list(dict.fromkeys(step.what for step in steps if step.sign == "figure"))
    names = tuple(what for what in read if isinstance(what, str))
    calls = tuple(what for what in read if not isinstance(what, str))
    return Expression(text.strip(), names, calls, steps, place)
