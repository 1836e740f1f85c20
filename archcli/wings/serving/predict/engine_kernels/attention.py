"""Softmax attention over grouped heads in an engine: prompts, and one new token of each sequence.

Prefill runs a block for each tile of queries of a head, which walks over the tiles of keys up to its own, or
up to a window's length back. Decode runs a block for each chunk of a sequence's cache and each key head: the
query heads of a group share what the block reads.
"""

from __future__ import annotations

from math import inf
from typing import NamedTuple

from archcli.wings.serving.predict.engine_kernels.terms import (
    MICRO,
    KernelDevice,
    Size,
    joined,
    larger,
    moved,
    smaller,
    width_factor,
)

NO_WINDOW = 1 << 40
"""Longer than any sequence."""


class HeadsCall(NamedTuple):
    """The sizes of one call, of one rank.

    heads, kv_heads: query heads, and heads of keys and values. width: elements of a head. window: keys that a
    query sees, 0 for all before it. batch: sequences. length: tokens of a prompt; of a cache with the new
    token. cache_bytes: bytes of an element of the cache.
    """

    heads: Size
    kv_heads: Size
    width: Size
    window: Size
    batch: Size
    length: Size
    cache_bytes: Size = 2

    @property
    def reach(self) -> Size:
        """Keys that a query may see."""
        return self.window + (self.window == 0) * NO_WINDOW


class PrefillConstants(NamedTuple):
    """Constants of attention over whole prompts.

    call_us: launches, and the wait of a block before its first product.
    compute: fraction of the peak.
    tile: queries of a block; a shorter prompt costs as much as a whole tile.
    block: weight of the longest block, the last of a prompt: with few heads all others wait for it.
    start: cost of a block's start and end, in keys.
    memory, cached: fraction of the bandwidth, and how much faster L2 is; below 1 where small calls are slow.
    narrow, wide: factors of head widths below and above 128.
    window: factor of attention with a window, whose tiles are masked at both ends.
    masked: share of its cost that a tile beyond the window keeps, 1 for a kernel blind to windows.
    cache_passes: times that keys and values are moved: rotated, quantized, written and read.
    """

    call_us: float
    compute: float
    tile: float = 64
    block: float = 0.7
    start: float = 0.0
    memory: float = 0.7
    cached: float = 1.0
    narrow: float = 1.0
    wide: float = 1.0
    window: float = 1.0
    masked: float = 0.0
    cache_passes: float = 1.0


def prefill_seconds(constants: PrefillConstants, call: HeadsCall, device: KernelDevice) -> Size:
    """Seconds of causal attention over prompts: call + products + bytes."""
    tile = constants.tile
    tiles = -(-call.length // tile)
    within = smaller(tiles * tile, call.reach + tile)
    has_window = call.reach < call.length
    keys = keys_of_tiles(tiles, within, tile) * (1 + has_window * (constants.window - 1))
    keys = keys + constants.masked * (
        keys_of_tiles(tiles, tiles * tile, tile) - keys_of_tiles(tiles, within, tile)
    )
    last = within + constants.masked * (tiles * tile - within)
    # products by keys and by values, 2 FLOPs each
    key = 4 * tile * call.width * width_factor(call.width, constants.narrow, constants.wide)
    work = key * (keys + constants.start * tiles) * call.heads * call.batch
    longest = key * (last + constants.start) * device.processors * constants.block
    # not their sum: blocks of other heads fill most of the wait for the longest
    products = joined(work, longest, 1.5) / (device.peak * constants.compute)
    cache = call.kv_heads * call.cache_bytes * constants.cache_passes
    size = 2 * call.batch * call.length * call.width * (2 * call.heads + cache)
    return constants.call_us * MICRO + products + moved(size, constants.cached, constants.memory, device)


def keys_of_tiles(tiles: Size, most: Size, tile: float) -> Size:
    """Keys that all tiles of a prompt walk over: tile, 2 tile, … up to `most`."""
    rising = smaller(tiles, larger(most / tile, 1))
    return tiles * most - rising * (most - smaller(tile, most)) / 2


class DecodeConstants(NamedTuple):
    """Constants of attention of one new token of each sequence.

    call_us: launches, and the sum over chunks.
    memory, cached: fraction of the bandwidth, and how much faster L2 is.
    least: the fewest keys that count; a shorter cache costs as much.
    wave_us: microseconds of one block on each processor, beside what it reads.
    block: time of a processor for its share of bytes, beside the time of all processors for all bytes.
    compute: fraction of the peak.
    narrow, wide: factors of head widths below and above 128.
    masked: share of the keys beyond a window that are read all the same.
    window_us: microseconds more where a window hides a part of the cache: masks, and a sum over fewer chunks.
    queries: times that queries and outputs are moved.
    chunk, splits: least keys of a block, and most blocks of a cache.
    apart: with a window or without groups, each query head has a block of its own for its whole cache.
    """

    call_us: float
    memory: float
    least: float = 64
    wave_us: float = 0.0
    block: float = 1.0
    cached: float = 1.0
    compute: float = inf
    narrow: float = 1.0
    wide: float = 1.0
    masked: float = 0.0
    window_us: float = 0.0
    queries: float = 0.0
    chunk: float = 256
    splits: float = inf
    apart: bool = False


def decode_seconds(constants: DecodeConstants, call: HeadsCall, device: KernelDevice) -> Size:
    """Seconds of attention of one new token: call + waves + (all bytes, the longest block, products)."""
    keys = smaller(call.length, call.reach)
    keys = larger(keys + constants.masked * (call.length - keys), constants.least)
    # 0 or 1 and no `if`, as the sizes may be arrays of many calls
    is_apart = constants.apart * ((call.window > 0) | (call.heads == call.kv_heads))
    blocks = call.batch * (is_apart * call.heads + (1 - is_apart) * call.kv_heads)
    key = 2 * call.width * call.cache_bytes * width_factor(call.width, constants.narrow, constants.wide)
    queries = 4 * call.batch * call.heads * call.width * constants.queries
    size = blocks * keys * key + queries
    chunk = larger(smaller(keys, constants.chunk), keys / constants.splits)
    chunk = is_apart * keys + (1 - is_apart) * chunk
    read = moved(size, constants.cached, constants.memory, device)
    longest = chunk * key * constants.block * device.processors / (device.bandwidth * constants.memory)
    flops = 4 * call.batch * call.heads * call.width * keys
    products = flops / (device.peak * constants.compute)
    waves = constants.wave_us * blocks / device.processors
    fixed = constants.call_us + constants.window_us * (call.reach < call.length) + waves
    return fixed * MICRO + joined(joined(read, longest, 2), products, 2)
