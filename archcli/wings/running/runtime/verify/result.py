"""Results of verification: figures of archcli compared with those of a reference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

NAMED = 3
"""Operations without a formula that a note names."""


@dataclass(frozen=True, slots=True)
class ReferenceResult:
    """A compared figure: its name, both values, and the rows at fault where they differ.

    Numbers may differ by `bound`.
    """

    reference: str
    what: str
    ours: int | str
    theirs: int | str
    where: str = ""
    bound: int = 0

    @property
    def ok(self) -> bool:
        """Whether the two agree."""
        if isinstance(self.ours, int) and isinstance(self.theirs, int):
            return abs(self.ours - self.theirs) <= self.bound
        return self.ours == self.theirs


@dataclass(frozen=True, slots=True)
class VerifyResult:
    """The results of all references, and notes on what they could not count.

    `uncounted`: by reference, the calls of operations that it has no formula for and that are no matrix
    products.
    """

    results: tuple[ReferenceResult, ...]
    notes: tuple[str, ...] = ()
    uncounted: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether every reference agrees."""
        return all(result.ok for result in self.results)


def compare_entries(
    reference: str,
    what: str,
    ours: Mapping[str, Any],
    theirs: Mapping[str, Any],
    where: Callable[[str], str],
    missing: Any = None,
) -> Iterator[ReferenceResult]:
    """Results: how many entries the reference confirms, then each that differs.

    Differences alike in figures and place, as `where` names it, are one result with their number.
    """
    same = sum(theirs.get(name, missing) == value for name, value in ours.items())
    yield ReferenceResult(reference, what, len(ours), same)
    pairs = {name: (ours.get(name, missing), theirs.get(name, missing)) for name in {**ours, **theirs}}
    differences = Counter(
        (where(name), _format(our), _format(their)) for name, (our, their) in pairs.items() if our != their
    )
    for (place, our, their), times in differences.items():
        yield ReferenceResult(reference, what, our, their, f"{place} ×{times}" if times > 1 else place)


def _format(value: Any) -> int | str:
    """A number as it is, a shape as 4×16, several shapes side by side, None as `absent`."""
    if isinstance(value, tuple):
        nested = any(isinstance(item, tuple) for item in value)
        return (", " if nested else "×").join(str(_format(item)) for item in value)
    return "absent" if value is None else value


def listed(counts: Mapping[str, int]) -> str:
    """Names with their counts, the most frequent first."""
    return ", ".join(f"{name} ×{counts[name]:,}" for name in by_frequency(counts))


def by_frequency(counts: Mapping[str, int]) -> list[str]:
    """The names, the most frequent first."""
    return sorted(counts, key=lambda name: (-counts[name], name))


def uncounted_note(reference: str, counts: Mapping[str, int]) -> str:
    """A note on the operations that a reference has no formula for: a few, and how many more."""
    names = by_frequency(counts)
    more = [f"{len(names) - NAMED} more"] if len(names) > NAMED else []
    listing = " and ".join(filter(None, [", ".join(names[:NAMED]), *more]))
    return f"{reference} has no formula for {listing}; none is a matrix product. --verbose lists them."
