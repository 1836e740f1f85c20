"""Results of verification: figures of archcli compared with those of a reference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ReferenceResult:
    """A compared figure: its name, both values, and the rows at fault where they differ."""

    reference: str
    what: str
    ours: int | str
    theirs: int | str
    where: str = ""

    @property
    def ok(self) -> bool:
        """Whether the two agree."""
        return self.ours == self.theirs


@dataclass(frozen=True, slots=True)
class VerifyResult:
    """The results of all references, and notes on what they could not count."""

    results: tuple[ReferenceResult, ...]
    notes: tuple[str, ...] = ()

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
    return ", ".join(
        f"{name} ×{count:,}" for name, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    )
