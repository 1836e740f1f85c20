"""Shares of a program's step by class, phase and module; they add up to the whole traced step.

Sums, not medians: steps of a program may differ, as one in ten that writes a log, which a median would drop.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache

from archcli.wings.running.recording.program import (
    LOADER,
    OUTSIDE,
    UNPLACED,
    WAITING,
    PlacedTime,
    ProgramRecording,
)
from archcli.wings.serving.recorded.classes import FRAMEWORK

NO_KERNEL = "(between kernels)"
"""The path of time outside of kernels: Python, the dispatcher, launches, waiting for a device."""


@dataclass(slots=True)
class Spent:
    """Seconds and calls of kernels, over all traced steps, with their classes and torch's names."""

    seconds: float = 0.0
    calls: int = 0
    by_class: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    by_name: dict[str, float] = field(default_factory=lambda: defaultdict(float))

    def add(self, time: PlacedTime) -> None:
        """Add the kernels of one name."""
        self.seconds += time.seconds
        self.calls += time.calls
        self.by_class[time.op_class] += time.seconds
        self.by_name[time.name] += time.seconds

    @property
    def main_class(self) -> str:
        """The class that took most of the time."""
        return max(self.by_class, key=lambda name: self.by_class[name], default="")

    def names(self, most: int = 3) -> list[str]:
        """The names of the slowest operations."""
        return sorted(self.by_name, key=lambda name: -self.by_name[name])[:most]


def folding(modules: Mapping[str, str], depth: int = 0) -> Callable[[str], str]:
    """A function that folds paths, `h.0.attn` to `h.*.attn`; cut to `depth` steps (0: all).

    Numbered siblings are folded only if all have the same class.
    """
    siblings: dict[str, set[str]] = defaultdict(set)
    for path, name in modules.items():
        parent, _, last = path.rpartition(".")
        if last.isdecimal():
            siblings[parent].add(name)

    @cache
    def folded(path: str) -> str:
        steps = path.split(".")
        shown = [
            "*" if step.isdecimal() and len(siblings[".".join(steps[:i])]) == 1 else step
            for i, step in enumerate(steps)
        ]
        return ".".join(shown[: depth or None])

    return folded


def tallied(recording: ProgramRecording, key: Callable[[PlacedTime], str]) -> dict[str, Spent]:
    """The kernels summed by a key, the slowest first."""
    sums: dict[str, Spent] = defaultdict(Spent)
    for time in recording.placed:
        sums[key(time)].add(time)
    return dict(sorted(sums.items(), key=lambda item: -item[1].seconds))


def shares(recording: ProgramRecording, key: Callable[[PlacedTime], str], rest: str) -> dict[str, float]:
    """Shares of a step by a key of its kernels; `rest` is the key of time outside of kernels.

    Waiting in the data loader is counted separately.
    """
    whole = recording.traced_total_s
    by_key = {name: spent.seconds / whole for name, spent in tallied(recording, key).items()}
    waiting = recording.waiting_s / whole
    between = 1 - sum(by_key.values()) - waiting
    place = WAITING if rest == FRAMEWORK else LOADER
    return {**by_key, place: by_key.get(place, 0.0) + waiting, rest: between}


def attributed_share(recording: ProgramRecording) -> float:
    """The share of the kernels' time whose place is known."""
    kernels = recording.kernels_s
    lost = sum(time.seconds for time in recording.placed if time.path == UNPLACED)
    return 1 - lost / kernels if kernels else 1.0


def outside_share(recording: ProgramRecording) -> float:
    """The share of a step in kernels outside of modules, the optimizer and the loader, backward included."""
    outside = sum(time.seconds for time in recording.placed if time.path in {OUTSIDE, UNPLACED})
    return outside / recording.traced_total_s


def calls_per_step(recording: ProgramRecording, times: Iterable[PlacedTime] | None = None) -> float:
    """Kernels in a step."""
    return sum(it.calls for it in (recording.placed if times is None else times)) / len(recording.traced_s)


def flops_by_place(
    recording: ProgramRecording, folded: Callable[[str], str]
) -> Counter[tuple[str, str, str]]:
    """FLOPs of products in one step by (folded path, phase, class)."""
    flops = Counter[tuple[str, str, str]]()
    if recording.counted is not None:
        for (path, phase, op_class), number in recording.counted.by_place.items():
            flops[folded(path), phase, op_class] += number
    return flops
