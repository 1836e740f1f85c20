"""Latent attention (MLA) in an engine: prompts, and one new token of each sequence.

All heads share one latent of each token, 512 wide, beside a rotary key of 64. Decoding is absorbed: each head
multiplies by the latent itself, which is read once for all heads. A prompt is computed either absorbed, or
with keys and values of each head, 192 and 128 wide.
"""

from __future__ import annotations

from math import inf
from typing import NamedTuple

from archcli.wings.serving.predict.engine_kernels.attention import keys_of_tiles
from archcli.wings.serving.predict.engine_kernels.terms import (
    MICRO,
    KernelDevice,
    Size,
    joined,
    larger,
    moved,
    smaller,
)

LATENT, ROTARY, KEYS, VALUES = 512, 64, 128, 128
"""Elements of a latent, a rotary key, and of a head's keys and values, as in DeepSeek-V2 and V3."""
OVERLAP = 4
"""The power that joins launches and the work that they hide: near the longer of the two."""


class LatentCall(NamedTuple):
    """The sizes of one call, of one rank.

    heads: query heads. batch: sequences. length: tokens of a prompt; of a cache with the new token.
    cache_bytes: bytes of an element of the cache.
    """

    heads: Size
    batch: Size
    length: Size
    cache_bytes: Size = 2


class LatentPrefillConstants(NamedTuple):
    """Constants of latent attention over whole prompts; see `PrefillConstants`.

    absorbed: products with the latent itself. overlapped: launches hide behind work, and work behind them.
    """

    call_us: float
    compute: float
    tile: float = 64
    block: float = 0.0
    start: float = 0.0
    memory: float = inf
    cached: float = 1.0
    absorbed: bool = False
    overlapped: bool = False


def latent_prefill_seconds(constants: LatentPrefillConstants, call: LatentCall, device: KernelDevice) -> Size:
    """Seconds of causal latent attention over prompts."""
    tile = constants.tile
    tiles = -(-call.length // tile)
    # a query's products with a key and a value: the latent is both where it is absorbed
    width = LATENT + ROTARY + LATENT if constants.absorbed else KEYS + ROTARY + VALUES
    key = 2 * width * tile
    work = key * (keys_of_tiles(tiles, tiles * tile, tile) + constants.start * tiles)
    longest = key * (tiles * tile + constants.start) * device.processors * constants.block
    products = joined(work * call.heads * call.batch, longest, 1.5) / (device.peak * constants.compute)
    # queries, keys, values and outputs of each head; absorbed, keys and values are the latent
    per_head = width if constants.absorbed else 2 * width
    size = call.batch * call.length * 2 * (call.heads * per_head + LATENT + ROTARY)
    work_s = products + moved(size, constants.cached, constants.memory, device)
    return _with_launches(constants.call_us * MICRO, work_s, overlapped=constants.overlapped)


class LatentDecodeConstants(NamedTuple):
    """Constants of latent attention of one new token of each sequence; see `DecodeConstants`."""

    call_us: float
    memory: float
    least: float = 64
    wave_us: float = 0.0
    block: float = 1.0
    cached: float = 1.0
    compute: float = inf
    queries: float = 0.0
    chunk: float = 256
    splits: float = inf
    overlapped: bool = False


def latent_decode_seconds(constants: LatentDecodeConstants, call: LatentCall, device: KernelDevice) -> Size:
    """Seconds of latent attention of one new token, absorbed: a cache is read once for all heads."""
    keys = larger(call.length, constants.least)
    key = (LATENT + ROTARY) * call.cache_bytes
    width = LATENT + ROTARY + LATENT
    size = call.batch * (keys * key + 2 * call.heads * width * constants.queries)
    chunk = larger(smaller(keys, constants.chunk), keys / constants.splits)
    read = moved(size, constants.cached, constants.memory, device)
    longest = chunk * key * constants.block * device.processors / (device.bandwidth * constants.memory)
    products = 2 * width * call.batch * call.heads * keys / (device.peak * constants.compute)
    # blocks of 64 heads
    waves = constants.wave_us * MICRO * call.batch * -(-call.heads // 64) / device.processors
    work = waves + joined(joined(read, longest, 2), products, 2)
    return _with_launches(constants.call_us * MICRO, work, overlapped=constants.overlapped)


def _with_launches(call: float, work: Size, *, overlapped: bool) -> Size:
    return joined(call, work, OVERLAP) if overlapped else call + work


class LatentProductCall(NamedTuple):
    """One of the two products that absorb: heads, tokens, and the widths that a head reads and writes.

    weight_bytes: bytes of an element of the weights.
    """

    heads: Size
    tokens: Size
    read: Size
    written: Size
    weight_bytes: Size = 2


class LatentProductConstants(NamedTuple):
    """Constants of the products that absorb: launches, fractions of the peak and of the bandwidth, L2."""

    call_us: float
    compute: float
    memory: float
    cached: float = 1.0


def latent_product_seconds(
    constants: LatentProductConstants, call: LatentProductCall, device: KernelDevice
) -> Size:
    """Seconds of a product for each head, from keys' width to the latent or from the latent to values."""
    products = 2 * call.heads * call.tokens * call.read * call.written / (device.peak * constants.compute)
    rows = 2 * call.heads * call.tokens * (call.read + call.written)
    size = rows + call.heads * call.read * call.written * call.weight_bytes
    moving = moved(size, constants.cached, constants.memory, device)
    return constants.call_us * MICRO + joined(products, moving, 2)
