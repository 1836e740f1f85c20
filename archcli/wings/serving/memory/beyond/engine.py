"""What an engine takes beyond the model, and the storages of a pass."""

from __future__ import annotations

from collections.abc import Iterator

from archcli.graph import StateContent
from archcli.graph.kept import FP32
from archcli.measure.kvcache.engine import NO_ENGINE
from archcli.modules import Model
from archcli.wings.serving.memory.ranks import Overhead, RankPeak
from archcli.wings.serving.memory.reserved.reserves import reserves_of
from archcli.wings.serving.memory.settings import MemorySettings


def of_engine_alone(settings: MemorySettings, model: Model, rank: RankPeak) -> Iterator[Overhead]:
    """What an engine takes besides: the graphs of its launches, and what an indexer gathers keys into."""
    reserves = reserves_of(settings.engine or NO_ENGINE)
    least, most = reserves.launched
    if most:
        yield Overhead("CUDA graphs", most, least, "logs: graph_memory of `archcli engines`")
    states = [state for row in rank.traced.rows for state in row.states]
    keys = next((state for state in states if state.holds is StateContent.INDEX_KEYS), None)
    if keys is not None and reserves.gathered:
        # in fp8, with a scale in fp32
        size = (keys.entry or keys.per_token(rank.traced.request.batch_size)) + FP32
        gathered = int(reserves.gathered * settings.context(model) // keys.shared_by * size)
        yield Overhead("keys of the indexer", gathered, gathered, "gathered_keys of `archcli engines`")


def storages(rank: RankPeak) -> int:
    """How many storages are alive at a peak: weights, gradients and states, and what is kept."""
    traced = rank.traced
    tensors = sum(len(row.weights) * int(row.copies) for row in traced.rows)
    # the weight, its gradient, and two moments of the optimizer
    per_weight = 4 if traced.execution.records else 1
    saved = traced.ledger.saved.values()
    return per_weight * tensors + sum(int(s.record.times * s.record.pieces) for s in saved)
