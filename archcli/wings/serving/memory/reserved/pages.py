"""Pages of one size that all layers share, as vLLM cuts its pool for hybrids and DeepSeek-V4.

Layers with one table of blocks are a group; a block has a page of each layer of a group. So a request takes
whole blocks in every group, and a block is as large as that of the largest group.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from archcli.arith import ceil_div
from archcli.graph import State, StateContent, StateKind
from archcli.graph.kept import FP32
from archcli.measure.kvcache.cache_size import CacheDtypes, CacheSize
from archcli.modules.stored.formats import FP8_OF_LATENTS, cache_bytes

FILLED = 1 << 20
"""Tokens behind which every window is full and no block of tokens is open."""


class PageRule(NamedTuple):
    """How an engine cuts pages.

    multiple: the tokens of a page of attention beside states. states: blocks of a state of one sequence.
    keys, window: tokens of a page of compressed keys, and of those of a window.
    aligned: bytes of which a page is a multiple.
    open_blocks: tokens of a page of a compressor's state, by its rate.
    in_flight: passes whose tokens a window keeps until they are done. chunk: the tokens of one.
    """

    multiple: int
    states: int
    keys: int
    window: int
    aligned: int
    open_blocks: tuple[tuple[int, int], ...]
    in_flight: int
    chunk: int = 0


class PageGroup(NamedTuple):
    """The tokens of a block, None of a state; and the window, None for all tokens."""

    block: int | None
    window: int | None = None


@dataclass(frozen=True, slots=True)
class PagedCache:
    """A pool of equal blocks: their bytes, and the groups that take them."""

    rule: PageRule
    block_bytes: int
    groups: tuple[PageGroup, ...]

    def bytes_of(self, tokens: int, batch_size: int, chunk: int | None = None) -> int:
        """Bytes of the blocks of sequences: one is in its prompt, with passes in flight; others decode."""
        prompt = self._blocks(tokens, self.rule.in_flight * (chunk or self.rule.chunk))
        return (prompt + (batch_size - 1) * self._blocks(tokens, 1)) * self.block_bytes

    def record(self, memory_bytes: int, context: int) -> dict[str, Any]:
        """The pool of a memory by JSON's keys; vLLM prints sequences by their length as its tokens."""
        blocks, of_one = memory_bytes // self.block_bytes, self.bytes_of(context, 1) // self.block_bytes
        return {
            "blocks": blocks,
            "block_bytes": self.block_bytes,
            "block_tokens": [group.block for group in self.groups],
            "concurrency": blocks / of_one,
            "context": context,
            "printed_tokens": blocks * context // of_one,
        }

    def _blocks(self, tokens: int, in_flight: int) -> int:
        return sum(self._of_group(group, tokens, in_flight) for group in self.groups)

    def _of_group(self, group: PageGroup, tokens: int, in_flight: int) -> int:
        if group.block is None:
            return self.rule.states
        if group.window is None:
            return int(ceil_div(tokens, group.block))
        # a window need not begin where a block does
        return int(ceil_div(min(group.window - 1 + in_flight, tokens), group.block)) + 1


_known: WeakKeyDictionary[CacheSize, dict[tuple[CacheDtypes, PageRule], PagedCache | None]]
_known = WeakKeyDictionary()


def paged_cache(size: CacheSize, dtypes: CacheDtypes, rule: PageRule) -> PagedCache | None:
    """The pool of a model's cache; None where each layer has pages of its own tokens alone."""
    pools, key = _known.setdefault(size, {}), (dtypes, rule)
    if key not in pools:
        pools[key] = _of_blocks(size, rule) or _of_hybrid(size, dtypes, rule)
    return pools[key]


def _of_hybrid(size: CacheSize, dtypes: CacheDtypes, rule: PageRule) -> PagedCache | None:
    """Attention beside states: its block grows until a page holds a state, which is padded to it."""
    per_token, states = Counter[int](), Counter[int]()
    for of_layer, times in size.layers(FILLED):
        growing = [state for state in of_layer if state.tokens is not None]
        if any(state.kind is not StateKind.TOKENS or state.entry is not None for state in growing):
            return None
        constant = [state for state in of_layer if state.tokens is None]
        if growing:
            numbers = ((state.holds, state.elements // FILLED) for state in growing)
            per_token[_bytes(dtypes, numbers)] += times
        if constant:
            kept = ((s.holds, s.elements if s.in_engines is None else s.in_engines) for s in constant)
            states[_bytes(dtypes, kept)] += times
    if len(per_token) != 1 or len(states) != 1:
        return None
    (token, layers), (state, recurrent) = *per_token.items(), *states.items()
    block = ceil_div(state, rule.multiple * token) * rule.multiple
    few, many = sorted((layers, recurrent))
    # where there are hardly more of one kind, padding of the other takes less than a second group
    group = many if 4 * many < 5 * few else few
    tables = ceil_div(layers, group) * (PageGroup(block),) + ceil_div(recurrent, group) * (PageGroup(None),)
    return PagedCache(rule, group * block * token, tables)


class _Page(NamedTuple):
    """A page of one layer: its table's block and window, and its bytes."""

    table: PageGroup
    bytes: int


def _of_blocks(size: CacheSize, rule: PageRule) -> PagedCache | None:
    """Compressed attention: pages of keys, windows and open blocks, each as large as one of keys.

    A block has so many pages of each size that the layers of all tables fill them with the least left over.
    Keys are in fp8_ds_mla, whatever the type of a cache: vLLM keeps no other of these.
    """
    pages = Counter[_Page]()
    alike = zip(size.layers(FILLED), size.layers(FILLED + 1), strict=True)
    for (filled, times), (opened, _) in alike:
        for page in _of_layer(filled, opened, rule):
            pages[page] += times
    sizes = sorted({page.bytes for page in pages if page.table == PageGroup(rule.keys)})
    # pools of tokens that an index alone reads, as GLM-5.3's, are not modelled
    if not any(page.table.block == rule.window for page in pages) or not sizes:
        return None
    tables: dict[PageGroup, Counter[int]] = {}
    for page, times in pages.items():
        padded = next((n for n in sizes if n >= page.bytes), page.bytes)
        tables.setdefault(page.table, Counter())[padded] += times
    most = {table: max(of_size.values()) for table, of_size in tables.items()}
    least = max(most[table] for table, of_size in tables.items() if len(of_size) > 1 or table.window is None)
    repeats = min(range(least, max(most.values()) + 1), key=lambda n: (_left_over(most.values(), n), -n))
    groups = [table for table in tables for _ in range(ceil_div(most[table], repeats))]
    widths = {n for of_size in tables.values() for n in of_size}
    return PagedCache(rule, repeats * sum(widths), tuple(groups))


def _left_over(numbers: Iterable[int], repeats: int) -> int:
    return sum(-number % repeats for number in numbers)


def _of_layer(filled: Sequence[State], opened: Sequence[State], rule: PageRule) -> Iterator[_Page]:
    """The pages of a layer with keys of blocks of tokens, by its states before and after one more token."""
    rate = next((int(state.shared_by) for state in filled if state.entry is not None), None)
    for before, after in zip(filled, opened, strict=True):
        if before.kind is StateKind.WINDOW:
            entry = before.elements // before.tokens
            table = PageGroup(rule.window, before.tokens)
            yield _Page(table, _page(entry, rule.window, before.holds, rule))
        elif before.entry is not None:
            entries = rule.keys // before.shared_by
            yield _Page(PageGroup(rule.keys), _page(before.entry, entries, before.holds, rule))
        elif before.holds is StateContent.OPEN_BLOCK and rate is not None:
            block = dict(rule.open_blocks).get(rate, rate)
            # one that overlaps the block before keeps that, too
            table = PageGroup(block, rate * (2 if before.elements else 1))
            size = (after.elements - before.elements) * block * FP32
            yield _Page(table, _aligned(size, rule))


def _page(entry: int, entries: int, content: StateContent, rule: PageRule) -> int:
    return _aligned(int(cache_bytes(entry * entries, FP8_OF_LATENTS, content)), rule)


def _aligned(size: int, rule: PageRule) -> int:
    return int(ceil_div(size, rule.aligned)) * rule.aligned


def _bytes(dtypes: CacheDtypes, numbers: Iterable[tuple[StateContent, int]]) -> int:
    of_content = Counter[StateContent]()
    for content, n in numbers:
        of_content[content] += n
    return dtypes.bytes_of(of_content)
