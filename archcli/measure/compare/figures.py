"""Figures: what each of several architectures has, costs and caches, under the same question."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from archcli.arith import to_bytes
from archcli.measure.passes import MlaForm, Pass, decode_pass, forward_pass, prefill_pass, with_mla
from archcli.measure.report import Unit
from archcli.measure.survey.columns import FACETS, described
from archcli.modules import Encoder, Model

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
    "n_experts",
    "top_k",
    "expert_ratio",
    "active_share",
)
"""Facets that are compared whether they differ or not."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of every model alike; None takes the sequence's length."""

    batch_size: int = 1
    seq_len: int = 2048
    past: int | None = None
    context: int | None = None
    source_len: int | None = None
    dtype: str = "bf16"
    mla: MlaForm = "naive"


class Figure(NamedTuple):
    """One figure of one model: the section it belongs to, its key, its heading, how it reads, and its value."""

    section: str
    key: str
    title: str
    unit: Unit
    value: Any


def figures(name: str, model: Model, question: Question) -> list[Figure]:
    """All figures of a model, in the order they are shown."""
    record = described(name, model)
    return [
        *_params(model, question),
        *_flops(with_mla(model, question.mla), question),
        *_cache(model, question),
        *_facets(record),
    ]


def _params(model: Model, question: Question) -> Iterator[Figure]:
    rows = forward_pass(model, 1, 1).rows
    total = sum(row.params for row in rows)
    yield Figure("Parameters", "params", "total", "count", total)
    yield Figure("Parameters", "active_params", "active", "count", sum(row.active_params for row in rows))
    yield Figure(
        "Parameters", "bytes", f"bytes in {question.dtype}", "bytes", to_bytes(total, question.dtype)
    )
    groups: dict[str, int] = {}
    for row in rows:
        groups[row.group] = groups.get(row.group, 0) + row.params
    yield from (Figure("Parameters by group", group, group, "count", n) for group, n in groups.items() if n)


def _flops(model: Model, question: Question) -> Iterator[Figure]:
    past = question.seq_len if question.past is None else question.past
    forward = forward_pass(model, question.batch_size, question.seq_len, source_len=question.source_len)
    yield from _spent(f"forward of {question.seq_len:,} tokens", "forward", forward)
    decodes = not isinstance(model, Encoder)
    decode = (
        decode_pass(model, question.batch_size, past, source_len=question.source_len) if decodes else None
    )
    yield from _spent(f"a token after {past:,}", "decode", decode)


def _spent(what: str, key: str, counted: Pass | None) -> Iterator[Figure]:
    matmul, other = (None, None) if counted is None else counted.flops()
    yield Figure("FLOPs", f"{key}_matmul_flops", what, "flops", matmul)
    yield Figure("FLOPs", f"{key}_other_flops", f"{what}, other", "flops", other)


def _cache(model: Model, question: Question) -> Iterator[Figure]:
    context = question.context or question.seq_len
    held = prefill_pass(model, question.batch_size, context, source_len=question.source_len)
    growth = prefill_pass(model, 1, 1).kv_elements()
    title = "KV cache"
    yield Figure(title, "kv_bytes_per_token", "per token", "bytes", to_bytes(growth, question.dtype))
    yield Figure(
        title, "kv_bytes", f"at {context:,} tokens", "bytes", to_bytes(held.cached(), question.dtype)
    )
    cross = to_bytes(held.cross_cached(), question.dtype)
    yield Figure(title, "cross_kv_bytes", "of the source, apart", "bytes", cross)


def _facets(record: Mapping[str, Any]) -> Iterator[Figure]:
    for key, facet in FACETS.items():
        if key in RATIOS:
            yield Figure("Shape", key, facet.title, facet.unit, record[key])
        elif facet.section and not facet.is_figure and key not in {"released", "tied"}:
            value = {True: "yes", False: "no"}.get(record[key], record[key])
            yield Figure("Structure", key, facet.title, "text", value)
