"""Conditions: `params in 7e9±1%`, `100 <= aspect_ratio <= 150`, `params/active_params > 3`.

    condition = expression sign expression {sign expression} | expression "in" range
    range     = expression ".." expression | expression ("±" | "+-") (expression | share)
    sign      = "=" | "!=" | "<" | "<=" | ">" | ">=" | "~"

Bounds of a range belong to it. A text, a flag or a date stands alone on the left: `pattern~window`,
`tied=yes`, `released>=2024-07`; `=none` asks whether a value is missing. Numbers are compared exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from archcli.query.comparisons import Reader, Test
from archcli.query.parser import Call
from archcli.query.reading import ConditionReader
from archcli.query.tokens import Phrase
from archcli.query.vocabulary import Vocabulary


@dataclass(frozen=True, slots=True)
class Condition:
    """What must hold of an architecture, or of each of many candidates; all `tests` must hold.

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
