"""Terms of a kernel's time: launching it, computing, and moving bytes."""

from __future__ import annotations

from typing import Literal, NamedTuple

Bound = Literal["compute", "memory", "cache", "launch", "link"]


class Terms(NamedTuple):
    """Seconds of a kernel by what takes them, each as if alone; numpy arrays where many are fitted."""

    launch: float
    compute: float
    memory: float

    def joined(self, exponent: float) -> float:
        """Seconds of all: launch + (compute^p + memory^p)^(1/p)."""
        both: float = (self.compute**exponent + self.memory**exponent) ** (1 / exponent)
        return self.launch + both

    def at_least(self, other: Terms) -> Terms:
        """The longer of each term of two."""
        return Terms(*(max(pair) for pair in zip(self, other, strict=True)))

    def bound_by(self, *, is_cached: bool = False) -> Bound:
        """The longest of them; `is_cached` says that memory is the cache."""
        if self.launch > max(self.compute, self.memory):
            return "launch"
        if self.compute >= self.memory:
            return "compute"
        return "cache" if is_cached else "memory"
