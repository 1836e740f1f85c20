"""Expressions on figures: `8/3*d_model@128`, `kv_bytes(context=32768) / params`.

Numbers are written as people write them (4096, 8k, 7e9, 70B, 1GiB, 25%), names may have dots, and figures
may have settings. `+ - * / //` and parentheses are as usual; division is exact. `EXPRESSION@128` is the
nearest multiple of 128, halves upwards, at least 128; it rounds all that is before it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from archcli.arith import Number
from archcli.errors import ArchError, Problem
from archcli.query.parser import Call, Parser, StackStep
from archcli.query.quotient import Quotient, quotient
from archcli.query.tokens import Phrase
from archcli.units import parse_quotient
from archcli.wording import quote

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
        """The number it comes to with numerator and denominator apart; raises as `value` does."""
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
