"""Recomputations of a training step: what each frees and repeats, and the cheapest that fits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, combinations
from typing import NamedTuple

from archcli.measure.memory.answers.checks import module_paths
from archcli.measure.memory.answers.kept_rows import folded_rows, kept_rows
from archcli.measure.memory.answers.question import MemoryAnswer, MemoryQuestion
from archcli.modules.models.layers import folded_path

Progress = Callable[[str], None]
MOST_PATTERNS = 8
"""Patterns of which sets are tried: those that free the most bytes per FLOP."""


class Recomputation(NamedTuple):
    """A setting of `--recompute`: its peak and that peak's moment, bytes kept, and FLOPs repeated.

    `needed_bytes` are the peak and what is beyond the model. `freed_bytes` are kept without recomputation.
    """

    setting: str
    peak_bytes: int
    needed_bytes: int
    moment: str
    kept_bytes: int
    repeated_flops: int
    freed_bytes: int = 0

    @property
    def freed_bytes_per_flop(self) -> float | None:
        """Bytes freed for each FLOP that is repeated; None where none is."""
        return self.freed_bytes / self.repeated_flops if self.repeated_flops else None


def repeated_flops(answer: MemoryAnswer) -> int:
    """FLOPs of the largest rank's forward that its backward repeats."""
    steps = answer.largest.traced.ledger.steps
    return sum(
        int(step.row.times * sum(part.flops for part in step.row.parts))
        for step in steps
        if step.region is not None
    )


def recompute_with(question: MemoryQuestion, setting: str) -> Recomputation:
    """The peak with a setting of `--recompute`."""
    answer = question.changed(recompute=setting).answer()
    kept, repeated = int(answer.largest.traced.ledger.kept), repeated_flops(answer)
    moment = answer.largest.peak.stage
    return Recomputation(setting, answer.peak_bytes, answer.needed_bytes, moment, kept, repeated)


def recomputations(question: MemoryQuestion, tell: Progress) -> list[Recomputation]:
    """None, and all single patterns of modules that free anything, those that free most per FLOP first."""
    none = recompute_with(question, "none")
    useful: dict[tuple[int, int], Recomputation] = {}
    for pattern in _patterns(question):
        tell(f"recompute {pattern}")
        tried = recompute_with(question, pattern)
        tried = tried._replace(freed_bytes=none.kept_bytes - tried.kept_bytes)
        if tried.freed_bytes > 0:
            useful.setdefault((tried.freed_bytes, tried.repeated_flops), tried)
    return [none, *sorted(useful.values(), key=_rank)]


def cheapest(question: MemoryQuestion, tell: Progress) -> Recomputation | None:
    """The recomputation that fits for the fewest FLOPs: a single pattern, or several of disjoint modules.

    Sets of patterns are tried in the order of the FLOPs that they repeat.
    """
    device = question.device
    if device is None:
        return None
    single = recomputations(question, tell)
    fitting = [one for one in single if one.needed_bytes <= device.memory_bytes]
    best = min(fitting, key=lambda one: (one.repeated_flops, one.peak_bytes), default=None)
    for patterns in _disjoint_sets(single):
        if best is not None and _flops(patterns) >= best.repeated_flops:
            break
        setting = ",".join(one.setting for one in patterns)
        tell(f"recompute {setting}")
        tried = recompute_with(question, setting)
        if tried.needed_bytes <= device.memory_bytes:
            return tried
    return best


def _disjoint_sets(single: list[Recomputation]) -> list[tuple[Recomputation, ...]]:
    """Sets of several patterns, none within another, by the FLOPs that they repeat."""
    patterns = [one for one in single if "*" in one.setting][:MOST_PATTERNS]
    sets = chain.from_iterable(combinations(patterns, n) for n in range(2, len(patterns) + 1))
    return sorted(filter(_are_disjoint, sets), key=_flops)


def _are_disjoint(patterns: tuple[Recomputation, ...]) -> bool:
    return not any(b.setting.startswith(f"{a.setting}.") for a in patterns for b in patterns)


def _flops(patterns: tuple[Recomputation, ...]) -> int:
    return sum(one.repeated_flops for one in patterns)


def _patterns(question: MemoryQuestion) -> Iterator[str]:
    """Modules of layers, operations that alone keep what they made, and the named settings."""
    whole = question.changed(recompute="none").answer().largest.traced
    alone = {row["path"] for row in folded_rows(kept_rows(question.model, whole)) if not row["shared_with"]}
    operations = {folded_path(row.path) for row in whole.rows}
    for path in _in_layers(module_paths(question.model)):
        if path not in operations or path in alone:
            yield path
    yield from ("attention", "layer")


def _in_layers(paths: Iterable[str]) -> Iterator[str]:
    """The paths within a layer, once for all layers of a stack."""
    folded = dict.fromkeys(map(folded_path, paths))
    return (path for path in folded if "layers.*." in path)


def _rank(tried: Recomputation) -> tuple[float, int]:
    return -(tried.freed_bytes_per_flop or float("inf")), tried.repeated_flops
