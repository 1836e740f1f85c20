"""Break-even points of decoding: the batch that hides weights, the context that outgrows them.

Each step reads all weights once, W bytes, and computes F FLOPs for each sequence: with b sequences both take
as long where b F / P = W / B, P the peak and B the bandwidth.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from archcli.arith import Number
from archcli.graph import OpClass, Row, StateKind
from archcli.measure.predict.rank.times import TimingDevice


class BreakEven(NamedTuple):
    """Points of one rank's decoding, None where there is none.

    `floor_batch` is by the peaks alone, `batch` by what matrix products reach of them; `context` is tokens of
    each sequence.
    """

    floor_batch: float | None
    batch: float | None
    context: int | None


def break_even(
    rows: Sequence[Row], batch_size: int, widths: tuple[float, float], device: TimingDevice, dtype: str
) -> BreakEven:
    """The points of a rank's decoding, behind so many tokens that windows are full.

    `widths` are bytes of a weight and of a cached number.
    """
    weights, flops = _products(rows)
    if not weights or not flops:
        return BreakEven(None, None, None)
    rates, constants = device.clock.rates, device.clock.efficiency.products(dtype)
    batch = (widths[0] * weights / rates.bandwidth) / (flops / batch_size / rates.peak(dtype))
    reached = None if constants is None else batch * constants.compute / constants.memory
    return BreakEven(batch, reached, _context(rows, widths[0] * weights / widths[1]))


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
    """Tokens at which all sequences' caches hold as many numbers; None where they never do."""
    growing, fixed, bounded = 0.0, 0.0, []
    for row in rows:
        for state in row.states:
            elements = float(state.elements * row.times)
            if state.kind is StateKind.TOKENS:
                growing += elements / float(state.tokens)
            elif state.kind is StateKind.WINDOW:
                bounded.append((float(state.tokens), elements / float(state.tokens)))
            else:
                fixed += elements
    left = weights - fixed - sum(tokens * each for tokens, each in bounded)
    if left <= 0:
        return 0
    return round(left / growing) if growing else None
