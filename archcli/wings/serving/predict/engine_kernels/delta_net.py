"""Gated delta nets in an engine: short convolution and recurrence, of prompts or one new token.

Each value head carries a state of 128 x 128 fp32. Decoding reads and writes it once a token; a prompt is cut
into chunks of 64 tokens, one after the other, whose products run in parallel.
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
)

WIDTH, TAPS = 128, 4
"""Elements of a head, and tokens that the convolution sees."""
STATE = 4 * WIDTH * WIDTH
"""Bytes of the state of a value head, in fp32."""


class DeltaCall(NamedTuple):
    """The sizes of one call, of one rank: heads of keys and of values, sequences, tokens of each."""

    key_heads: Size
    value_heads: Size
    batch: Size
    length: Size = 1


class DeltaKernelCall(NamedTuple):
    """A call in a model: recurrence or convolution, and its sizes."""

    kernel: str
    sizes: DeltaCall

    @property
    def operation(self) -> str:
        """The name of its entries."""
        return f"{self.kernel}_{'prefill' if self.sizes.length > 1 else 'decode'}"

    @property
    def wanted(self) -> dict[str, str]:
        """What an entry should have."""
        return {}

    @property
    def cache(self) -> str:
        """The dtype of a cache that it computes in: it reads none."""
        return ""


class DeltaConstants(NamedTuple):
    """Constants of a convolution or a recurrence.

    call_us: launches.
    memory, cached: fraction of the bandwidth, and how much faster L2 is.
    chunk: tokens of a step of a prompt.
    step_us: microseconds of a chunk, which waits for the one before it.
    token_us: microseconds of a token of the first chunk, which is filled token by token.
    state: fraction of the bandwidth at which a prompt's states are read and written.
    sequence_us: microseconds of each sequence.
    head_us: microseconds of a processor for each head of each sequence.
    keep: share of L2 that keeps states from one call to the next; of twice as many none is kept.
    keys: weight of the bytes of queries and keys beside those of values.
    narrow: the convolution is over queries and keys alone.
    """

    call_us: float
    memory: float
    cached: float = 1.0
    chunk: float = 64
    step_us: float = 0.0
    token_us: float = 0.0
    state: float = inf
    sequence_us: float = 0.0
    head_us: float = 0.0
    keep: float = 1.0
    keys: float = 1.0
    narrow: bool = False

    def channels(self, call: DeltaCall) -> Size:
        """Elements of a token's queries, keys and values, by the weight of their bytes."""
        return (2 * call.key_heads * self.keys + (not self.narrow) * call.value_heads) * WIDTH


def convolution_prefill_seconds(constants: DeltaConstants, call: DeltaCall, device: KernelDevice) -> Size:
    """Seconds of the convolution over prompts."""
    channels = constants.channels(call)
    return _prompt_seconds(constants, call, 4 * channels, 4 * TAPS * channels, device)


def recurrence_prefill_seconds(constants: DeltaConstants, call: DeltaCall, device: KernelDevice) -> Size:
    """Seconds of the recurrence over prompts."""
    token = 2 * (constants.channels(call) + call.value_heads * WIDTH)
    return _prompt_seconds(constants, call, token, 2 * call.value_heads * STATE, device)


def _prompt_seconds(
    constants: DeltaConstants, call: DeltaCall, token: Size, state: Size, device: KernelDevice
) -> Size:
    """Seconds over prompts, with bytes of a token and of a sequence's state read and written."""
    chunks = -(-call.length // constants.chunk)
    moving = moved(token * call.batch * call.length, constants.cached, constants.memory, device)
    steps = joined(constants.step_us * MICRO * chunks, moving, 2)
    filling = constants.token_us * smaller(call.length, constants.chunk)
    fixed = constants.call_us + filling + constants.sequence_us * call.batch
    return fixed * MICRO + steps + call.batch * state / (device.bandwidth * constants.state)


def convolution_decode_seconds(constants: DeltaConstants, call: DeltaCall, device: KernelDevice) -> Size:
    """Seconds of the convolution of one new token of each sequence."""
    channels = constants.channels(call)
    return _token_seconds(constants, call, 4 * channels, 2 * TAPS * channels, channels / WIDTH, device)


def recurrence_decode_seconds(constants: DeltaConstants, call: DeltaCall, device: KernelDevice) -> Size:
    """Seconds of the recurrence of one new token of each sequence."""
    token = 2 * (constants.channels(call) + call.value_heads * WIDTH)
    return _token_seconds(constants, call, token, call.value_heads * STATE, call.value_heads, device)


def _token_seconds(
    constants: DeltaConstants, call: DeltaCall, token: Size, state: Size, heads: Size, device: KernelDevice
) -> Size:
    """Seconds of one token of each sequence, whose states are read and written."""
    held = call.batch * state
    # the oldest state is dropped for the newest, and is the next to be read: L2 helps all or nothing
    spilled = smaller(larger(held / (device.cache * constants.keep) - 1, 0), 1)
    size = (2 * held + call.batch * token) * (spilled + (1 - spilled) / constants.cached)
    moving = size / (device.bandwidth * constants.memory)
    waves = constants.head_us * MICRO * call.batch * heads / device.processors
    return (constants.call_us + constants.sequence_us * call.batch) * MICRO + joined(moving, waves, 3)
