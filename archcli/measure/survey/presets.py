"""The list of presets: a line for each architecture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from archcli.arith import to_bytes
from archcli.measure.passes import prefill_pass
from archcli.measure.report import Column, Report, Table
from archcli.modules import MixerFacts, Model
from archcli.modules.layers import LayerIndex

CONVENTION = "Active: parameters a token meets. KV: cache that a token adds below every window, in bf16."
DTYPE = "bf16"

SHOWN = (
    Column("name", "preset"),
    Column("series", "series"),
    Column("released", "released", "date"),
    Column("params", "params", "count"),
    Column("active_params", "active", "count"),
    Column("layers", "layers", "number", minor=True),
    Column("attention", "attention", minor=True),
    Column("kv_bytes_per_token", "KV/token", "bytes"),
    Column("max_seq_len", "context", "number", minor=True),
)
COLUMNS = (
    *SHOWN,
    Column("kind", "kind"),
    Column("d_model", "d_model", "number"),
    Column("vocab_size", "vocab_size", "number"),
)
"""Columns that --where and --sort take; those of SHOWN are printed."""


def describe(name: str, model: Model) -> dict[str, Any]:
    """The record of an architecture."""
    counted = prefill_pass(model, 1, 1)
    layers = list(LayerIndex(model))
    return {
        "name": name,
        "series": model.series or None,
        "released": None if model.released is None else str(model.released),
        "kind": getattr(model, "kind", None),
        "params": counted.params(),
        "active_params": sum(row.active_params for row in counted.rows),
        "layers": sum(layer.times for layer in layers),
        "d_model": model.d_model,
        "vocab_size": model.vocab_size,
        "attention": " / ".join(dict.fromkeys(_described(layer.block.facts()) for layer in layers)),
        "kv_bytes_per_token": to_bytes(counted.kv_elements(), DTYPE),
        "max_seq_len": model.max_seq_len,
        "source": model.source,
    }


def list_models(rows: Sequence[Mapping[str, Any]], **asked: Any) -> Report:
    """The report of `archcli list` on selected records; `asked` are the options of the selection."""
    return Report(
        command="list",
        model={},
        inputs={"dtype": DTYPE} | asked,
        convention=CONVENTION,
        totals={"models": len(rows)},
        rows=rows,
        tables=(Table("", SHOWN, rows),),
        notes=() if rows else ("no preset is like that.",),
    )


def _described(mixer: MixerFacts) -> str:
    bounds = {"window": mixer.window or mixer.sparse_window, "chunk": mixer.chunk}
    words = (f"{word} {size}" for word, size in bounds.items() if size is not None)
    return " ".join([mixer.kind or "none", *words])
