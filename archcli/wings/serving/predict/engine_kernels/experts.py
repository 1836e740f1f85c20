"""Seconds of routed experts in an engine, per rank: routing, sorting, grouped products, sum."""

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
)


class ExpertsCall(NamedTuple):
    """The sizes of one call, of one rank.

    hidden, inner: widths of a token, and of an expert's share on this rank.
    matrices: 3 of a gated expert, 2 of a plain one.
    touched: experts of this rank that get a token.
    rows: (token, expert) pairs on this rank.
    all_rows: the same on all ranks of the group.
    weight_bytes: bytes of a weight, scales included.
    """

    hidden: Size
    inner: Size
    matrices: Size
    touched: Size
    rows: Size
    all_rows: Size
    weight_bytes: Size = 2


class RoutedCall(NamedTuple):
    """A call of the experts' kernel: its sizes, and the dtype of weights as entries name it."""

    sizes: ExpertsCall
    dtype: str

    @property
    def operation(self) -> str:
        """The name of its entries."""
        return "experts"

    @property
    def wanted(self) -> dict[str, str]:
        """What an entry should have."""
        return {"dtype": self.dtype}

    @property
    def cache(self) -> str:
        """The dtype of a cache that it computes in: it reads none."""
        return ""


class ExpertsConstants(NamedTuple):
    """Constants of routed experts.

    call_us: launches of choice, sorting, products and sum.
    memory: fraction of the bandwidth at which weights are read.
    cached: factor by which reads from L2 are faster.
    compute: fraction of the peak.
    tile: rows of a tile; the tokens of an expert are rounded up to whole tiles.
    activations: fraction of the bandwidth at which rows are gathered, activated and summed.
    expert_us: microseconds of each touched expert, beside its weights.
    foreign: cost of another rank's row here, as a fraction of an own row's; 0 if these rows are dropped.
    """

    call_us: float
    memory: float
    compute: float
    tile: float = 32
    activations: float = inf
    cached: float = 1.0
    expert_us: float = 0.0
    foreign: float = 0.0


def experts_seconds(constants: ExpertsConstants, call: ExpertsCall, device: KernelDevice) -> Size:
    """Seconds of routed experts: call + (weights, products) + activations + the cost of each expert."""
    elements = call.matrices * call.hidden * call.inner
    weights = moved(call.touched * elements * call.weight_bytes, constants.cached, constants.memory, device)
    # on average the last tile of an expert is half empty; an expert has at least one whole tile
    tiles = call.touched * constants.tile
    padded = larger(tiles, call.rows + tiles / 2)
    products = 2 * padded * elements / (device.peak * constants.compute)
    rows = call.rows + constants.foreign * (call.all_rows - call.rows)
    # 2 bytes an element: a token is read and written; `inner` activations of each matrix
    size = 2 * rows * (2 * call.hidden + call.matrices * call.inner)
    activations = size / (device.bandwidth * constants.activations)
    per_expert = constants.expert_us * MICRO * call.touched
    return constants.call_us * MICRO + joined(weights, products, 2) + activations + per_expert
