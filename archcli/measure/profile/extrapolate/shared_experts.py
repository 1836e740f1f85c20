"""Stacks whose experts share memory, for mixtures too large to run two layers."""

from __future__ import annotations

from dataclasses import replace

from archcli.arith import prod, to_bytes
from archcli.graph import Row
from archcli.measure.passes import Pass
from archcli.measure.profile.charges import is_expert_product
from archcli.measure.profile.extrapolate.stacks import MemoryLimits, SmallStack

MOST_FILLED = 0.8
"""The share of the available memory that shared experts fill, as estimates may be too low."""
BEYOND = 4
"""How many times the caches the distinct matrices hold at least: each is then read from memory."""


def with_shared_experts(stack: SmallStack, limits: MemoryLimits) -> SmallStack | None:
    """The stack with as many distinct experts as fit into memory; None if too few would.

    Too few would stay in the caches. None in training, which needs a gradient of every expert.
    """
    rows = _expert_products(stack.counted)
    if not rows or limits.available is None or stack.counted.phase == "train":
        return None
    rest = sharing(stack, 0, limits.dtype).needed
    per_expert = sum(_expert_bytes(row, limits.dtype) * row.times for row in rows)
    distinct = min(int((MOST_FILLED * limits.available - rest) // per_expert), _fewest_experts(rows))
    smallest = min(_expert_bytes(row, limits.dtype) for row in rows)
    if distinct < 2 or distinct * smallest < BEYOND * limits.cache:  # noqa: PLR2004
        return None
    return sharing(stack, distinct, limits.dtype)


def sharing(stack: SmallStack, distinct: int, dtype: str) -> SmallStack:
    """The stack with memory for `distinct` experts per layer."""
    rows = _expert_products(stack.counted)
    saved = sum(_expert_bytes(row, dtype) * row.times * (_n_experts(row) - distinct) for row in rows)
    less = {key: stack.memory[key] - saved for key in ("weights_bytes", "needed_bytes")}
    return replace(stack, memory=stack.memory | less, experts=_fewest_experts(rows), distinct=distinct)


def _expert_products(counted: Pass) -> list[Row]:
    return [row for row in counted.rows if is_expert_product(row)]


def _n_experts(row: Row) -> int:
    return 1 if row.experts is None else int(row.experts.n_experts)


def _fewest_experts(rows: list[Row]) -> int:
    return min(_n_experts(row) for row in rows)


def _expert_bytes(row: Row, dtype: str) -> int:
    """Bytes of one expert's matrix."""
    return int(to_bytes(prod(row.weights["weight"]), dtype))
