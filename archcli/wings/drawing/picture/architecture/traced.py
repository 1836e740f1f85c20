"""Traced: numbers that remember how they were computed, so that a layout can be read as JavaScript.

A traced number has the value of this model; its arithmetic also writes a step of a
script. Printed into a text or an attribute, it leaves a mark that holds the step and the value.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from operator import add, floordiv, mod, mul, neg, sub, truediv
from typing import Any

MARK = re.compile(
    "\ue000"
    r"((?:written|trimmed)\((?:[tu]\d+|i|f\[\d+\]|Number\(f\[\d+\]\)),(?:\d|'\w+')\))"
    "\ue001([^\ue002]*)\ue002"
)
"""A mark in a text: JavaScript, and what it comes to for this model. Private-use characters delimit it.

Nothing but a step and how it is written: a model's name may hold any characters, and is never run.
"""


STEP = re.compile(r"\b[a-z]\d+\b")


@dataclass
class Scope:
    """Steps computed together: of the drawing, or of one turn of a loop in it."""

    prefix: str
    outer: Scope | None = None
    steps: dict[str, str] = field(default_factory=dict)

    @property
    def depth(self) -> int:
        """0 of the drawing, 1 of a loop in it."""
        return 0 if self.outer is None else self.outer.depth + 1

    def name(self, code: str) -> str:
        """The name of a step; equal steps are computed once."""
        return self.steps.setdefault(code, f"{self.prefix}{len(self.steps)}")

    def script(self, needed: str) -> str:
        """The steps that some JavaScript needs, in their order."""
        names = {name: code for code, name in self.steps.items()}
        left, used = [needed], set[str]()
        while left:
            fresh = {name for name in STEP.findall(left.pop()) if name in names and name not in used}
            used |= fresh
            left += [names[name] for name in fresh]
        return "".join(f"const {name}={code};" for name, code in names.items() if name in used)


class TracedArithmetic:
    """Arithmetic that writes steps: the name of a number's step, and its scope."""

    code: str
    scope: Scope

    def __add__(self, operand: Any) -> Any:
        return _infix("+", add, self, operand)

    def __radd__(self, operand: Any) -> Any:
        return _infix("+", add, operand, self)

    def __sub__(self, operand: Any) -> Any:
        return _infix("-", sub, self, operand)

    def __rsub__(self, operand: Any) -> Any:
        return _infix("-", sub, operand, self)

    def __mul__(self, operand: Any) -> Any:
        return _infix("*", mul, self, operand)

    def __rmul__(self, operand: Any) -> Any:
        return _infix("*", mul, operand, self)

    def __truediv__(self, operand: Any) -> Any:
        return _infix("/", truediv, self, operand)

    def __rtruediv__(self, operand: Any) -> Any:
        return _infix("/", truediv, operand, self)

    def __floordiv__(self, operand: Any) -> Any:
        return _step("Math.floor({}/{})", floordiv, self, operand)

    def __rfloordiv__(self, operand: Any) -> Any:
        return _step("Math.floor({}/{})", floordiv, operand, self)

    def __mod__(self, operand: Any) -> Any:
        return _step("modulo({},{})", mod, self, operand)

    def __rmod__(self, operand: Any) -> Any:
        return _step("modulo({},{})", mod, operand, self)

    def __neg__(self) -> Any:
        return _step("(-{})", neg, self)

    def __format__(self, form: str) -> str:
        places = re.fullmatch(r"\.(\d)f", form)
        code = f"trimmed({{}},{places[1] if places else 1})"
        return marked(self, code, format(plain(self), form or ".1f").removesuffix(".0"))

    def __str__(self) -> str:
        return format(self)


class TracedNumber(TracedArithmetic, float):
    """A number that remembers how it was computed: `exact` is the int or float that it stands for.

    A float, ints too: `1.5 * TracedInt` would be answered by float alone, without a trace.
    """

    exact: float

    def __index__(self) -> int:
        return int(self.exact)


def traced(value: float, code: str, scope: Scope) -> Any:
    """A number of this value whose step has this name."""
    number = TracedNumber(value)
    number.exact, number.code, number.scope = value, code, scope
    return number


def is_traced(value: Any) -> bool:
    """Whether a value is a traced number."""
    return type(value) is TracedNumber


def plain(number: Any) -> Any:
    """The int or float that a traced number is, without its step."""
    return number.exact if type(number) is TracedNumber else number


def call(name: str, compute: Callable[..., Any], *numbers: Any) -> Any:
    """A function of numbers, and of traced ones also the step `name(…)`."""
    return _step(f"{name}({','.join('{}' for _ in numbers)})", compute, *numbers)


def marked(number: Any, code: str, text: str) -> str:
    """A traced number in a text: `code` writes it, with {} for the number; `text` is what it comes to."""
    name = exact_code(number) if code.startswith("written") else number.code
    return f"\ue000{code.format(name)}\ue001{text}\ue002"


def exact_code(number: Any) -> str:
    """The code of a traced number; of a figure itself its BigInt, which is exact beyond 2^53."""
    return str(number.code).removeprefix("Number(").removesuffix(")")


def plain_text(text: str) -> str:
    """A text with its marks replaced by what they come to for this model."""
    return MARK.sub(lambda mark: mark[2], text)


def template(text: str) -> str:
    """A text with marks as JavaScript."""
    pieces, end = [], 0
    for mark in MARK.finditer(text):
        pieces += [_quoted(text[end : mark.start()]), mark[1]]
        end = mark.end()
    return "+".join(piece for piece in (*pieces, _quoted(text[end:])) if piece != '""') or '""'


def _quoted(text: str) -> str:
    import json  # of the report alone

    # </script> within a name must not end the script
    return json.dumps(text).replace("<", "\\u003c")


def _infix(sign: str, compute: Callable[..., Any], a: Any, b: Any) -> Any:
    return _step(f"({{}}{sign}{{}})", compute, a, b)


def _step(code: str, compute: Callable[..., Any], *numbers: Any) -> Any:
    """The result of a step, traced if one of its numbers is."""
    result = compute(*map(plain, numbers))
    scopes = [number.scope for number in numbers if is_traced(number)]
    if not scopes:
        return result
    scope = max(scopes, key=lambda scope: scope.depth)
    return traced(result, scope.name(code.format(*map(_code, numbers))), scope)


def _code(number: Any) -> str:
    return str(number.code) if is_traced(number) else repr(number).replace("inf", "Infinity")
