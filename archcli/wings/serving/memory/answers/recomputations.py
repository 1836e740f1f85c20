"""Settings of `--recompute` for a training step: bytes that each frees, FLOPs that it repeats."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, combinations
from typing import Any, NamedTuple

from archcli.modules import Model
from archcli.modules.models.layers import LayerIndex, folded_path
from archcli.wings.serving.memory.answers.question import MemoryAnswer, MemoryQuestion
from archcli.wings.serving.memory.traced import TracedPass
from archcli.wings.serving.memory.training.losses import module_paths

Record = dict[str, Any]


def kept_rows(model: Model, traced: TracedPass) -> list[Record]:
    """A record for each row whose outputs the backward keeps, the most bytes per FLOP first.

    kept_bytes: of all layers that the row stands for.
    shared_with: other rows that keep the same storages.
    recompute_flops: of the row's forward.
    freed_bytes_per_flop: None where these are 0.
    """
    if not traced.ledger.saved:
        return []
    index = LayerIndex(model)
    sizes: Counter[str] = Counter()
    keepers: dict[str, set[str]] = defaultdict(set)
    for storage in traced.ledger.saved.values():
        sizes[index.counted_path(storage.record.path)] += storage.record.size * storage.record.times
    paths = {key: storage.record.path for key, storage in traced.ledger.saved.items()}
    for step in traced.ledger.steps:
        for allocation in step.kept:
            if id(allocation) in paths:
                keepers[index.counted_path(allocation.path)].add(index.counted_path(step.row.path))
    flops = _forward_flops(index, traced)
    records = [
        _record(path, size, keepers[path] - {path}, flops[path]) for path, size in sizes.items() if size
    ]
    return sorted(records, key=_by_freed, reverse=True)


def folded_rows(records: Iterable[Record]) -> list[Record]:
    """The records with all layers of a stack together, the most bytes per FLOP first."""
    sizes: Counter[str] = Counter()
    flops: Counter[str] = Counter()
    shared: dict[str, set[str]] = defaultdict(set)
    for record in records:
        path = folded_path(record["path"])
        sizes[path] += record["kept_bytes"]
        flops[path] += record["recompute_flops"]
        shared[path] |= {folded_path(keeper) for keeper in record["shared_with"]}
    folded = [_record(path, size, shared[path] - {path}, flops[path]) for path, size in sizes.items()]
    return sorted(folded, key=_by_freed, reverse=True)


def _record(path: str, size: int, keepers: Iterable[str], flops: int) -> Record:
    return {
        "path": path,
        "kept_bytes": size,
        "shared_with": sorted(keepers),
        "recompute_flops": flops,
        "freed_bytes_per_flop": size / flops if flops else None,
    }


def _by_freed(record: Record) -> tuple[float, int]:
    per_flop = record["freed_bytes_per_flop"]
    return (float("inf") if per_flop is None else per_flop, record["kept_bytes"])


def _forward_flops(index: LayerIndex, traced: TracedPass) -> Counter[str]:
    flops: Counter[str] = Counter()
    for row in traced.rows:
        flops[index.counted_path(row.path)] += row.times * sum(part.flops for part in row.parts)
    return flops


Progress = Callable[[str], None]
MOST_PATTERNS = 8
"""The most patterns that are combined: those with the most bytes per FLOP, as sets grow with 2^n."""


class Recomputation(NamedTuple):
    """A setting of `--recompute`, and the memory and FLOPs of a step with it.

    setting: `none`, `layer`, `attention`, or patterns such as `layers.*.ffn`.
    peak_bytes, moment: the peak, and the moment of it.
    needed_bytes: the peak, and memory of a device that the model does not count, as its context.
    kept_bytes: activations that are kept for the backward.
    repeated_flops: FLOPs of the forward that run twice.
    freed_bytes: kept without recomputation, and not with this setting.
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
    kept, repeated = int(answer.largest.kept), repeated_flops(answer)
    moment = answer.largest.peak.stage
    return Recomputation(setting, answer.peak_bytes, answer.needed_bytes, moment, kept, repeated)


def recomputations(question: MemoryQuestion, tell: Progress) -> list[Recomputation]:
    """`none`, and each single pattern that frees memory, the most bytes per FLOP first."""
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
    """The recomputation that fits with the fewest FLOPs: one pattern, or several of disjoint modules."""
    device = question.device
    if device is None:
        return None
    single = recomputations(question, tell)
    fitting = [setting for setting in single if setting.needed_bytes <= device.memory_bytes]
    best = min(fitting, key=lambda fit: (fit.repeated_flops, fit.peak_bytes), default=None)
    # by FLOPs: the first set that fits is the cheapest
    for patterns in _disjoint_sets(single):
        if best is not None and _flops(patterns) >= best.repeated_flops:
            break
        setting = ",".join(pattern.setting for pattern in patterns)
        tell(f"recompute {setting}")
        tried = recompute_with(question, setting)
        if tried.needed_bytes <= device.memory_bytes:
            return tried
    return best


def _disjoint_sets(single: list[Recomputation]) -> list[tuple[Recomputation, ...]]:
    """Sets of several patterns, none within another, by the FLOPs that they repeat."""
    # no star: "none", "attention" and "layer", which are not combined
    patterns = [pattern for pattern in single if "*" in pattern.setting][:MOST_PATTERNS]
    sets = chain.from_iterable(combinations(patterns, n) for n in range(2, len(patterns) + 1))
    return sorted(filter(_are_disjoint, sets), key=_flops)


def _are_disjoint(patterns: tuple[Recomputation, ...]) -> bool:
    return not any(b.setting.startswith(f"{a.setting}.") for a in patterns for b in patterns)


def _flops(patterns: tuple[Recomputation, ...]) -> int:
    return sum(pattern.repeated_flops for pattern in patterns)


def _patterns(question: MemoryQuestion) -> Iterator[str]:
    """Modules of layers, operations whose outputs no other operation keeps, and the named settings."""
    whole = question.changed(recompute="none").answer().largest.traced
    kept = folded_rows(kept_rows(question.model, whole))
    # recomputing an operation frees nothing if another operation keeps its output
    unshared = {row["path"] for row in kept if not row["shared_with"]}
    operations = {folded_path(row.path) for row in whole.rows}
    for path in _in_layers(module_paths(question.model)):
        if path not in operations or path in unshared:
            yield path
    yield from ("attention", "layer")


def _in_layers(paths: Iterable[str]) -> Iterator[str]:
    """The paths within a layer, once for all layers of a stack."""
    folded = dict.fromkeys(map(folded_path, paths))
    return (path for path in folded if "layers.*." in path)


def _rank(tried: Recomputation) -> tuple[float, int]:
    return -(tried.freed_bytes_per_flop or float("inf")), tried.repeated_flops
