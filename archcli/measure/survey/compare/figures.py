"""Figures to compare architectures by: parameters, FLOPs and cache for one request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from archcli.graph import Row
from archcli.measure.passes import Pass, cache_pass, count_pass
from archcli.measure.report import Unit
from archcli.measure.survey.columns import COLUMNS, describe_architecture
from archcli.measure.survey.layers import architecture_of
from archcli.measure.weights.stored_bytes import weight_bytes
from archcli.modules import Model
from archcli.modules.spec.request import Request
from archcli.modules.stored.formats import cache_bytes

CACHE = "KV cache"
"""The section of the cache."""
RATIOS = (
    "n_layers",
    "d_model",
    "vocab_size",
    "aspect_ratio",
    "d_ff_ratio",
    "active_d_ff_ratio",
    "head_ratio",
    "n_heads",
    "n_kv_heads",
    "head_dim",
    "attention_share",
    "state_heads",
    "state_dim",
    "state_head_dim",
    "n_experts",
    "top_k",
    "expert_ratio",
    "active_share",
)
"""Columns that are compared whether they differ or not."""


class Figure(NamedTuple):
    """A figure of a model: its section, key, heading, unit and value."""

    section: str
    key: str
    title: str
    unit: Unit
    value: Any


def figures(name: str, model: Model, request: Request, context: int, dtype: str) -> list[Figure]:
    """All figures of a model in display order; the KV cache is that of `context` tokens."""
    architecture = architecture_of(model)
    held = cache_pass(model, replace(request, phase="prefill", seq_len=context, past=None))
    return [
        *_params(model, architecture.counted.rows, dtype),
        *_flops(model, request),
        *_cache(architecture.counted, held, dtype),
        *_columns(describe_architecture(name, architecture)),
    ]


def _params(model: Model, rows: Sequence[Row], dtype: str) -> Iterator[Figure]:
    total = sum(row.params for row in rows)
    yield Figure("Parameters", "params", "total", "count", total)
    yield Figure("Parameters", "active_params", "active", "count", sum(row.active_params for row in rows))
    yield Figure("Parameters", "bytes", f"bytes in {dtype}", "bytes", weight_bytes(model, rows, dtype))
    groups: dict[str, int] = {}
    for row in rows:
        groups[row.group] = groups.get(row.group, 0) + row.params
    yield from (Figure("Parameters by group", group, group, "count", n) for group, n in groups.items() if n)


def passes_of(request: Request) -> tuple[Request, Request]:
    """The two passes that are compared: a forward, and a token decoded after `past` others."""
    return (
        replace(request, phase="forward", past=None).resolved(),
        replace(request, phase="decode").resolved(),
    )


def _flops(model: Model, request: Request) -> Iterator[Figure]:
    forward, decode = passes_of(request)
    yield from _pass_figures(f"forward of {request.seq_len:,} tokens", "forward", count_pass(model, forward))
    counted = count_pass(model, decode) if model.caches else None
    yield from _pass_figures(f"a token after {decode.past:,}", "decode", counted)


def _pass_figures(what: str, key: str, counted: Pass | None) -> Iterator[Figure]:
    matmul_flops, other_flops = (None, None) if counted is None else counted.flops()
    yield Figure("FLOPs", f"{key}_matmul_flops", what, "flops", matmul_flops)
    yield Figure("FLOPs", f"{key}_other_flops", f"{what}, non-matmul", "flops", other_flops)


def _cache(one_token: Pass, held: Pass, dtype: str) -> Iterator[Figure]:
    growth = one_token.kv_elements()
    yield Figure(CACHE, "kv_bytes_per_token", "per token", "bytes", cache_bytes(growth, dtype))
    yield Figure(CACHE, "kv_bytes", f"at {held.new:,} tokens", "bytes", cache_bytes(held.cached(), dtype))
    constant = cache_bytes(held.state_elements(), dtype)
    yield Figure(CACHE, "state_bytes", "constant, of those", "bytes", constant)
    cross = cache_bytes(held.cross_cached(), dtype)
    yield Figure(CACHE, "cross_kv_bytes", "of the source, apart", "bytes", cross)


def _columns(record: Mapping[str, Any]) -> Iterator[Figure]:
    for key, column in COLUMNS.items():
        if key in RATIOS:
            yield Figure("Shape", key, column.title, column.unit, record[key])
        elif column.section and not column.is_figure and key not in {"released", "tied"}:
            value = {True: "yes", False: "no"}.get(record[key], record[key])
            yield Figure("Structure", key, column.title, "text", value)
