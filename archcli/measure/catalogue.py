"""Catalogue: many architectures, a line each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from archcli.arith import to_bytes
from archcli.measure.passes import layers, prefill_pass
from archcli.measure.report import Column, Report, Table
from archcli.modules import Attention, Model

CONVENTION = "Active: parameters a token meets. KV: cache that a token adds below every window, in bf16."
DTYPE = "bf16"


def list_models(models: Iterable[tuple[str, Model]]) -> Report:
    """What `archcli list` reports, in the order given."""
    rows = [_record(name, model) for name, model in models]
    columns = (
        Column("name", "preset"),
        Column("params", "params", "count"),
        Column("active_params", "active", "count"),
        Column("layers", "layers", "number"),
        Column("attention", "attention"),
        Column("kv_bytes_per_token", "KV/token", "bytes"),
        Column("max_seq_len", "context", "number"),
    )
    return Report(
        command="list",
        model={},
        inputs={"dtype": DTYPE},
        convention=CONVENTION,
        totals={"models": len(rows)},
        rows=rows,
        tables=(Table("", columns, rows),),
    )


def _record(name: str, model: Model) -> dict[str, Any]:
    counted = prefill_pass(model, 1, 1)
    blocks = list(layers(model))
    return {
        "name": name,
        "params": counted.params(),
        "active_params": sum(row.active_params for row in counted.rows),
        "layers": sum(times for _, _, times in blocks),
        "d_model": model.d_model,
        "attention": " / ".join(dict.fromkeys(_described(block.attention) for _, block, _ in blocks)),
        "kv_bytes_per_token": to_bytes(counted.cached(), DTYPE),
        "max_seq_len": model.max_seq_len,
        "source": model.source,
    }


def _described(attention: Attention) -> str:
    kind = getattr(attention, "kind", type(attention).__name__)
    bounds = {"window": attention.window, "chunk": attention.chunk}
    return " ".join([kind, *(f"{word} {size}" for word, size in bounds.items() if size is not None)])
