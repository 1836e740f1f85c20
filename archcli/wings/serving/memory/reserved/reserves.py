"""What an engine takes memory for besides weights, cache and the tensors of a pass, by its facts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from archcli.measure.kvcache.engine import InferenceEngine
from archcli.modules.stored.dtypes import COMPUTED
from archcli.units import parse_bytes

if TYPE_CHECKING:
    from archcli.measure.kvcache.cache_size import CacheDtypes, CacheSize
    from archcli.wings.serving.memory.reserved.pages import PagedCache, PageRule

BY_HEAD, WHOLE = "by head", "whole"
"""Facts of an engine whose indexer holds the scores of each head, and of one that holds their sum."""
OPEN = "open_"
"""What begins the name of the tokens of an open block's page, before its rate."""
ALL = 1 << 62
"""Bytes of scores beyond any pass."""
USUAL_MEMORY = 80 << 30
"""That of the card of which figures are taken where none is named."""


@dataclass(frozen=True, slots=True)
class Reserves:
    """What an engine reserves.

    scores: the most bytes of an indexer's scores at once; None holds those of each head.
    pages: how it cuts the cache of hybrids and of compressed attention; None as all other caches.
    width: bytes of an activation; None as computed.
    latents: the form of latent attention in prompts, such as absorbed; empty as torch.
    copies: of what enters a card's graph, which holds masks and unpacked caches, where there are several
        cards; 0 of an engine without such a graph.
    sampler: bytes of each logit of as many sequences as run at once, which a run at the start has; that run
        has a whole chunk of tokens, however short a prompt is. None of an engine without such a run.
    launched: the least and the most bytes of CUDA graphs that logs print.
    gathered: contexts of an indexer's keys that it has room for outside of the cache.
    adapter_slots, adapter_ranks: projections that a slot of an adapter has matrices for, all_linear or those
        packed with its targets; empty where that is not known. Ranks of slots; empty for any.
    """

    scores: int | None = ALL
    pages: PageRule | None = None
    width: int | None = None
    latents: str = ""
    copies: int = 0
    sampler: int | None = None
    launched: tuple[int, int] = (0, 0)
    gathered: int = 0
    adapter_slots: str = ""
    adapter_ranks: tuple[int, ...] = ()

    def pool(self, size: CacheSize, dtypes: CacheDtypes, engine: InferenceEngine) -> PagedCache | None:
        """The pool of a cache whose layers share pages of one size; None of any other."""
        if self.pages is None:
            return None
        from archcli.wings.serving.memory.reserved.pages import (
            paged_cache,
        )  # of engines with such pools alone

        computed = dtypes.dtype if dtypes.dtype in COMPUTED else COMPUTED[0]
        return paged_cache(size, dtypes.in_engine(engine, computed), self.pages)


USUAL = Reserves()
"""What engines have in common."""


def reserves_of(engine: InferenceEngine) -> Reserves:
    """What an engine reserves; of one without facts the usual."""
    return engine.reserves or USUAL


def by_memory(figures: Mapping[str, int], memory_bytes: int | None) -> int | None:
    """The engine's figure for a device's memory; the last one where the memory is unknown."""
    figure_of_memory = None
    for least, figure in figures.items():
        if memory_bytes is None or memory_bytes >= parse_bytes(least):
            figure_of_memory = figure
    return figure_of_memory


def read_reserves(facts: Mapping[str, Any], memory_bytes: int | None) -> Reserves:
    """What an engine reserves on a device with so much memory, by the facts of its file."""
    graph = facts.get("graph_buffer", {})
    least, most = map(parse_bytes, facts.get("graph_memory", ("0", "0")))
    return Reserves(
        _scores(facts.get("indexer_scores"), memory_bytes),
        _pages(facts, memory_bytes),
        graph.get("activation_bytes"),
        facts.get("latent_prompts", ""),
        graph.get("copies", 0),
        facts.get("profile_run", {}).get("logit_bytes"),
        (least, most),
        facts.get("gathered_keys", 0),
        facts.get("adapter_slots", ""),
        tuple(facts.get("adapter_ranks", ())),
    )


def _scores(most: str | float | None, memory_bytes: int | None) -> int | None:
    """The bytes of a bound such as 512MiB, of a share of the memory, or of none."""
    if most == BY_HEAD:
        return None
    if isinstance(most, str) and most != WHOLE:
        return parse_bytes(most)
    return int(most * memory_bytes) if isinstance(most, float) and memory_bytes else ALL


def _pages(facts: Mapping[str, Any], memory_bytes: int | None) -> PageRule | None:
    if "hybrid_pages" not in facts:
        return None
    from archcli.wings.serving.memory.reserved.pages import PageRule  # of engines with such pools alone

    figures = {**facts["hybrid_pages"], **facts["block_pages"]}
    opened = [name for name in figures if name.startswith(OPEN)]
    blocks = tuple((int(name.removeprefix(OPEN)), figures.pop(name)) for name in opened)
    chunk = by_memory(facts["chunk"], memory_bytes or USUAL_MEMORY) or 0
    return PageRule(**figures, open_blocks=blocks, chunk=chunk)
