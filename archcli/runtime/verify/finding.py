"""Findings: one thing archcli says beside what an outside witness says of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Finding:
    """What is compared, the two answers, and the rows at fault where they differ."""

    witness: str
    what: str
    ours: int | str
    theirs: int | str
    where: str = ""

    @property
    def ok(self) -> bool:
        """Whether the two agree."""
        return self.ours == self.theirs


@dataclass(frozen=True, slots=True)
class Verdict:
    """All findings, and what no witness could count, in sentences."""

    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether every witness agrees."""
        return all(finding.ok for finding in self.findings)


def agreement(
    witness: str,
    what: str,
    ours: Mapping[str, Any],
    theirs: Mapping[str, Any],
    where: Callable[[str], str],
    missing: Any = None,
) -> Iterator[Finding]:
    """How many of our entries the witness confirms, then each that differs; what `where` says the same of is told once, with how often."""
    same = sum(theirs.get(name, missing) == value for name, value in ours.items())
    yield Finding(witness, what, len(ours), same)
    differ = [name for name in {**ours, **theirs} if ours.get(name, missing) != theirs.get(name, missing)]
    told = Counter(
        (where(name), _shown(ours.get(name, missing)), _shown(theirs.get(name, missing))) for name in differ
    )
    for (place, own, other), times in told.items():
        yield Finding(witness, what, own, other, f"{place} ×{times}" if times > 1 else place)


def _shown(value: Any) -> int | str:
    """A number as it is, a shape as 4×16, several of them side by side, nothing as `absent`."""
    if isinstance(value, tuple):
        nested = any(isinstance(item, tuple) for item in value)
        return (", " if nested else "×").join(str(_shown(item)) for item in value)
    return "absent" if value is None else value


def listed(counts: Mapping[str, int]) -> str:
    """Names with how often, the most frequent first."""
    return ", ".join(
        f"{name} ×{count:,}" for name, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    )
