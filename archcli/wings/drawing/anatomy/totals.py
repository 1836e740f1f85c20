"""Totals of a model as `params`, `kvcache` and `flops` print them, from the rows of a drawing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from archcli.arith import Number, rounded
from archcli.graph import StateKind
from archcli.graph.wired_tape import WiredRow
from archcli.measure.params import active_by_group, param_totals, prediction_totals
from archcli.measure.report import Report
from archcli.measure.survey.show import cached_record, layer_flops
from archcli.modules import Model


def parameter_totals(model: Model, rows: Sequence[WiredRow]) -> dict[str, Any]:
    """Totals of `params`, those of multi-token prediction included."""
    weighty = [row for row in rows if row.weights]
    counts = param_totals(model, weighty) | {"active_by_group": active_by_group(weighty)}
    return counts | (prediction_totals(model, weighty) if model.mtp_depth else {"mtp_params": 0})


def cache_totals(rows: Iterable[WiredRow]) -> tuple[Number, Number]:
    """(bytes per token, bytes of states of fixed size) of a sequence, as `kvcache` counts them."""
    growing: Number = 0
    constant: Number = 0
    for row in rows:
        kinds = {state.kind for state in row.states}
        # keys and values of an encoder's output grow with the source: they are not included
        if kinds and StateKind.SOURCE not in kinds:
            cached = cached_record(row)
            growing += cached["bytes_per_token"] * row.times
            constant += cached["layer_bytes"] * row.times if StateKind.FIXED in kinds else 0
    return growing, constant


def cache_of(model: Model) -> Report:
    """The report of `kvcache`."""
    # its imports take as long as all else that is drawn
    from archcli.measure.kvcache.kvcache import count_kv_cache

    return count_kv_cache(model)


def flops_per_token(rows: Iterable[WiredRow], tokens: int) -> Number:
    """FLOPs of matrix products for each token of a forward."""
    total: Number = 0
    for row in rows:
        total += row.times * layer_flops(row)
    total = rounded(total)
    return total // tokens if total % tokens == 0 else total / tokens
