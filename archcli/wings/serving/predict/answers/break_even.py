"""Break-even points of decoding: a batch hides the reading of weights, a long context outgrows them.

From the batch on compute takes as long as reading the weights; from the context on the cache is larger. Each
step reads all weights once, W bytes, and computes F FLOPs for each sequence: with b sequences both take as
long where b F / P = W / B, P the peak and B the bandwidth.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isinf
from typing import NamedTuple

from archcli.arith import Number
from archcli.graph import OpClass, Row, StateKind
from archcli.wings.serving.predict.rank.rank_times import TimingDevice


class BreakEven(NamedTuple):
    """The break-even points of one rank that decodes; None where there is none.

    `floor_batch` is by the peaks alone, `batch` by the share of them that matrix products reach; `context`
    are tokens of each sequence.
    """

    floor_batch: float | None
    batch: float | None
    context: int | None


def break_even(
    rows: Sequence[Row], batch_size: int, widths: tuple[float, float], device: TimingDevice, dtype: str
) -> BreakEven:
    """The break-even points of one rank that decodes; `rows` are those of a context beyond all windows.

    `widths`: bytes of a weight and of a cached number.
    """
    weights, flops = _products(rows)
    if not weights or not flops:
        return BreakEven(None, None, None)
    rates, constants = device.clock.rates, device.clock.efficiency.products(dtype)
    context = _context(rows, widths[0] * weights / widths[1])
    if isinf(rates.peak(dtype)):
        return BreakEven(None, None, context)
    batch = (widths[0] * weights / rates.bandwidth) / (flops / batch_size / rates.peak(dtype))
    # b F / (P compute) = W / (B memory)
    reached = None if constants is None else batch * constants.compute / constants.memory
    return BreakEven(batch, reached, context)


def _products(rows: Iterable[Row]) -> tuple[float, float]:
    """(numbers of all matrices that products read, FLOPs of these products)."""
    weights: Number = 0
    flops: Number = 0
    for row in rows:
        of_row = sum(part.flops for part in row.parts if part.op_class is OpClass.CONTRACTION)
        if row.weights and of_row:
            experts = row.experts.n_experts if row.experts else 1
            weights += row.unit_params * row.times * experts
            flops += of_row * row.times
    return float(weights), float(flops)


def _context(rows: Iterable[Row], weights: float) -> int | None:
    """Tokens of each sequence at which all caches hold as many numbers as the weights; None for never."""
    growing, fixed, bounded = 0.0, 0.0, []
    for row in rows:
        for state in row.states:
            elements = float(state.elements * row.times)
            if state.kind is StateKind.TOKENS:
                blocks = state.entry is not None
                growing += float(state.per_token() * row.times) if blocks else elements / float(state.tokens)
            elif state.kind is StateKind.WINDOW:
                bounded.append((float(state.tokens), elements / float(state.tokens)))
            else:
                fixed += elements
    left = weights - fixed - sum(tokens * per_token for tokens, per_token in bounded)
    if left <= 0:
        return 0
    return round(left / growing) if growing else None
