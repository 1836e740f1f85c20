"""A model in five lines, as a notebook shows it."""

from __future__ import annotations

from typing import Any

from archcli.measure.survey.columns import describe
from archcli.modules import Model
from archcli.units import short_count


def model_lines(model: Model) -> list[str]:
    """A model in five lines: what it is, its sizes, its attention, its networks, what it takes."""
    it = describe(model.name, model)
    origin = ", ".join(str(fact) for fact in (it["kind"], it["released"], it["source"]) if fact)
    sizes = (
        f"layers: {it['stacks']}",
        _fact("d_model", it["d_model"]),
        _fact("vocabulary", it["vocab_size"]),
    )
    heads = (_fact("", it["n_heads"], "query heads"), _fact("", it["n_kv_heads"], "KV heads"))
    experts = _fact("", it["n_experts"], f"experts, {it['top_k']} a token")
    active = "" if it["active_params"] == it["params"] else f"{short_count(it['active_params'])} active"
    cache = _fact("", it["kv_bytes_per_token"] or None, "bytes of cache a token in bf16")
    groups = (
        (*sizes, _fact("context", it["max_seq_len"])),
        (it["attention"], *heads, _fact("positions", it["position"]), it["norm"]),
        (it["ffn"], it["activation"], _fact("d_ff", it["d_ff"]), experts),
        (f"{it['params']:,} parameters", short_count(it["params"]), active, cache),
    )
    lines = (", ".join(fact for fact in facts if fact) for facts in groups)
    return [f"{it['name']}: {origin}", *(f"  {line}" for line in lines if line)]


def _fact(name: str, value: Any, unit: str = "") -> str:
    """`d_model 4,096` or `32 query heads`; empty for a value that is not there."""
    if value is None:
        return ""
    number = f"{value:,}" if type(value) is int else str(value)
    return " ".join(filter(None, (name, number, unit)))
