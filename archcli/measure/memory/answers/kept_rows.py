"""What is kept for the backward, row by row, and what each byte freed would cost to compute again."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

from archcli.measure.memory.traced import TracedPass
from archcli.modules import Model
from archcli.modules.models.layers import LayerIndex, folded_path

Record = dict[str, Any]


def kept_rows(model: Model, traced: TracedPass) -> list[Record]:
    """A record for each row that made something the backward keeps, the most bytes per FLOP first.

    Bytes are of all layers that the row stands for; `shared_with` are other rows that keep the same storages.
    `recompute_flops` are those of the row's forward; `freed_bytes_per_flop` is None where it has none.
    """
    index = LayerIndex(model)
    made: Counter[str] = Counter()
    keepers: dict[str, set[str]] = defaultdict(set)
    for storage in traced.ledger.saved.values():
        made[index.counted_path(storage.record.path)] += storage.record.size * storage.record.times
    paths = {key: storage.record.path for key, storage in traced.ledger.saved.items()}
    for step in traced.ledger.steps:
        for allocation in step.kept:
            if id(allocation) in paths:
                keepers[index.counted_path(allocation.path)].add(index.counted_path(step.row.path))
    flops = _forward_flops(index, traced)
    records = [
        _record(path, size, keepers[path] - {path}, flops[path]) for path, size in made.items() if size
    ]
    return sorted(records, key=_rank, reverse=True)


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
    return sorted(folded, key=_rank, reverse=True)


def _record(path: str, size: int, keepers: Iterable[str], flops: int) -> Record:
    return {
        "path": path,
        "kept_bytes": size,
        "shared_with": sorted(keepers),
        "recompute_flops": flops,
        "freed_bytes_per_flop": size / flops if flops else None,
    }


def _rank(record: Record) -> tuple[float, int]:
    per_flop = record["freed_bytes_per_flop"]
    return (float("inf") if per_flop is None else per_flop, record["kept_bytes"])


def _forward_flops(index: LayerIndex, traced: TracedPass) -> Counter[str]:
    flops: Counter[str] = Counter()
    for row in traced.rows:
        flops[index.counted_path(row.path)] += row.times * sum(part.flops for part in row.parts)
    return flops
