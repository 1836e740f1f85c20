"""CandidateRun: the candidates of one run, and what was worked out for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from archcli.measure.symbolic import required

MOST_KNOWN = 400
"""Results of a run that are kept for when they are asked for again."""
FREED = 16 << 20
"""Bytes: more than any array of a run, and less than glibc's own bound of 32 MiB."""
PLAIN = (int, float)
"""Types of numbers that are the same for all candidates."""


class CandidateRun:
    """One run: the candidates that it began with, and which of them still take the same branches."""

    __slots__ = ("active", "known", "length")

    def __init__(self, length: int) -> None:
        self.length = length
        self.known: dict[Any, Any] = {}
        self.active = required("numpy").ones(length, dtype=bool)

    def decide(self, holds: Any) -> bool:
        """Whether a condition [N] holds of the first candidate; those of which it does not leave the run."""
        answer = bool(holds[0])
        self.active &= holds if answer else ~holds
        return answer

    def once(self, operation: Any, a: Any, b: Any, compute: Callable[[], Any]) -> Any:
        """The result of an operation on two numbers, which are kept so that none is worked out twice."""
        key = operation, *((n, type(n)) if type(n) in PLAIN else (id(n), None) for n in (a, b))
        if key not in self.known:
            if len(self.known) >= MOST_KNOWN:
                self.known.clear()
            self.known[key] = compute(), a, b  # an id is that of its operand while this holds it
        return self.known[key][0]


def keep_freed_memory() -> None:
    """Let freed arrays stay with the process for those that come next, which doubles the speed of a sweep.

    glibc gives memory back to the system, page by page, above twice the largest block that it has mapped and
    freed (mallopt(3), M_MMAP_THRESHOLD), and would at every chunk. So a block is freed that is larger than
    any array of a run. No page of it is touched.
    """
    _ = required("numpy").empty(FREED, dtype="uint8")
