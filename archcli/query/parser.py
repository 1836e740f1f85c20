"""The parser of expressions: from tokens to steps that a stack works out, in order of precedence.

rounded  = sum ["@" factor]
sum      = product {("+" | "-") product}
product  = factor {("*" | "/" | "//") factor}
factor   = {"-" | "+"} (number | name | name "(" settings ")" | "(" rounded ")")
settings = [key "=" value {"," key "=" value}]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from archcli.errors import ArchError
from archcli.query.tokens import Phrase, Scanner, Token
from archcli.wording import describe_value, quote

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
"""The short name of it, for those that evaluate expressions."""


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
