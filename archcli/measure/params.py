"""Parameters: totals, by group and by path, and the bytes they take."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from archcli.arith import ELEMENT_BITS, Number, rounded
from archcli.graph import Row
from archcli.measure.passes import all_tower_rows, shape_pass, train_pass
from archcli.measure.report import Column, Report, Table, Unit, facts
from archcli.measure.weights.stored_bytes import (
    WeightBits,
    WeightTotals,
    broken_notes,
    in_format,
    stored,
    weight_bytes,
)
from archcli.modules import Model
from archcli.modules.models.layers import folded_path
from archcli.modules.spec.trace import is_prediction
from archcli.modules.stored.formats import format_notes
from archcli.units import binary_bytes, both_bytes, short_count

CONVENTION = (
    "Tied weights count once; buffers do not count. Active: routed experts count k of E. Total: token "
    "embedding + head + other tables (position, token type, per layer, n-grams) + non-embedding; a tied head "
    "is the token embedding."
)
PLAIN = "bf16"
STORED = "Bits per weight are those of all weights but the adapters, divided by their number."
EMBEDDING, HEAD = "embedding", "lm_head"
OTHER_TABLES = ("position_embedding", "token_type_embedding", "per_layer_embedding", "ngram_embedding")
"""Groups that `non_embedding_params` leaves out, beside the token embedding and the head."""

Totals = dict[str, Any]


def count_params(model: Model, dtype: str = "bf16", depth: int = 3) -> Report:
    """The report of `archcli params`; paths are folded to `depth` steps."""
    rows = shape_pass(model).rows
    totals = param_totals(model, rows) | prediction_totals(model, rows)
    totals |= _by_part(model, rows) if model.media else {}
    weights = list(stored(model, rows, dtype))
    forms = _published_totals(model, rows, dtype)
    model, _ = in_format(model, dtype)
    totals |= _stored_totals(weights) | forms | _more_by_group(weights)
    folded = _by_path(weights, depth)
    if model.unknown_form:
        from archcli.measure.weights.unknown_form import without_bytes  # of forms that are not known

        totals, folded = without_bytes(totals), [without_bytes(row) for row in folded]
    towers = (_parts(totals),) if model.towers else ()
    return Report(
        command="params",
        model={"name": model.name, "source": model.source},
        inputs={"dtype": dtype, "depth": depth},
        usual={"dtype": "bf16", "depth": 3},
        convention=CONVENTION if model.quantization is None else f"{CONVENTION} {STORED}",
        totals=totals,
        rows=folded,
        tables=(_summary(model, totals, dtype), *towers, _groups(totals), _paths(model, totals, folded)),
        notes=(*format_notes(dtype), *broken_notes(model), *_notes(model, totals)),
        headline="; ".join(_sizes(model, totals, dtype)),
    )


def param_totals(model: Model, rows: Iterable[Row]) -> Totals:
    """The report's `totals`."""
    counts, by_group = param_counts(model, rows)
    return {
        **counts,
        "by_group": {group: n for group, n in sorted(by_group.items(), key=lambda item: -item[1]) if n},
    }


def param_counts(model: Model, rows: Iterable[Row]) -> tuple[dict[str, Number], dict[str, Number]]:
    """(the numbers of the report's `totals`, parameters by group)."""
    by_group: dict[str, Number] = {}
    active: Number = 0
    trained: Number = 0
    for row in rows:
        by_group[row.group] = by_group.get(row.group, 0) + row.params
        active += row.active_params
        trained += row.params if row.trained else 0
    total = sum(by_group.values())
    tokens, head = by_group.get(EMBEDDING, 0), by_group.get(HEAD, 0)
    tables = sum(by_group.get(group, 0) for group in OTHER_TABLES)
    counts = {
        "params": total,
        "active_params": active,
        # a tied table is the head as well, and multiplies every token
        "active_params_excl_input_embedding": active if model.embedding.tied else active - tokens,
        "embedding_params": tokens,
        "head_params": head,
        "non_embedding_params": total - tokens - head - tables,
        "trainable_params": trained,
        "lora_params": by_group.get("lora", 0),
    }
    return counts, by_group


def _by_part(model: Model, rows: Iterable[Row]) -> Totals:
    """Parameters of a model that reads images or sounds, by part: towers, projector, language model."""
    parts: dict[str, Number] = {}
    for row in rows:
        part = model.part_of(row)
        parts[part] = parts.get(part, 0) + row.params
    for part, row in all_tower_rows(model):
        parts[part] = parts.get(part, 0) + row.params
    parts |= model.beside
    return {"params_with_towers": sum(parts.values()), "by_part": {part: n for part, n in parts.items() if n}}


def prediction_rows(model: Model) -> tuple[Row, ...]:
    """The rows of multi-token prediction, which only training runs."""
    # the fewest tokens that leave each depth a target; weights have the same shapes with any number
    rows = train_pass(model, 1, model.mtp_depth + 1).rows if model.mtp_depth else ()
    return tuple(row for row in rows if is_prediction(row))


def prediction_totals(model: Model, rows: Iterable[Row]) -> Totals:
    """Parameters of multi-token prediction, which the other figures leave out.

    `mtp_params` are its own; `mtp_stored_params` also copies of the token table and the head for each
    depth, as the checkpoints of DeepSeek-V3 and GLM-4.5 hold them, though training shares both.
    """
    predicting = prediction_rows(model)
    params = sum(row.params for row in predicting)
    active = sum(row.active_params for row in predicting)
    table = sum(row.params for row in rows if row.group == EMBEDDING)
    copies = table + (table if model.embedding.tied else sum(row.params for row in rows if row.group == HEAD))
    return {
        "mtp_params": params,
        "mtp_active_params": active,
        "mtp_stored_params": params + model.mtp_depth * copies,
    }


def _notes(model: Model, totals: Totals) -> Iterator[str]:
    """Notes on towers that do not fit, and on multi-token prediction, where there is any."""
    if model.towers:
        from archcli.measure.notes import tower_notes  # of models with towers alone

        yield from tower_notes(model)
    if model.mtp_depth:
        stored, whole = totals["mtp_stored_params"], totals["params"] + totals["mtp_stored_params"]
        yield (
            "Multi-token prediction runs in training alone and is in no other figure. A checkpoint that "
            f"stores copies of the table and the head with it holds {stored:,} more, {whole:,} in all."
        )


def _stored_totals(weights: Iterable[tuple[Row, WeightBits]]) -> Totals:
    """Bytes of all weights; average width and number of weights by width, adapters left out."""
    totals = WeightTotals()
    for row, bits in weights:
        totals = totals.with_row(row, bits)
    return {
        "bytes": totals.whole.bytes,
        "bits_per_weight": totals.base.bits_per_weight,
        "bits_per_weight_without_scales": totals.base.bits_per_weight_without_scales,
        "params_by_width": dict(totals.base.widths),
    }


def active_by_group(rows: Iterable[Row]) -> dict[str, Number]:
    """Parameters that a token passes through, by group."""
    active: dict[str, Number] = {}
    for row in rows:
        if row.weights:
            active[row.group] = active.get(row.group, 0) + row.active_params
    return active


def _more_by_group(weights: Sequence[tuple[Row, WeightBits]]) -> Totals:
    """By group: the parameters that a token reads, all bytes, and the bytes that a token reads."""
    sizes: dict[str, WeightTotals] = {}
    read: Totals = {}
    for row, bits in weights:
        if row.weights:
            sizes[row.group] = sizes.get(row.group, WeightTotals()).with_row(row, bits)
            share = Fraction(row.experts.top_k) / row.experts.n_experts if row.experts else 1
            read[row.group] = read.get(row.group, 0) + bits.bytes * share
    return {
        "active_by_group": active_by_group(row for row, _ in weights),
        "bytes_by_group": {group: total.whole.bytes for group, total in sizes.items()},
        "active_bytes_by_group": {group: rounded(size) for group, size in read.items()},
    }


def _published_totals(model: Model, rows: Iterable[Row], dtype: str) -> Totals:
    """Bytes of a model as it is published and in plain numbers of 16 bits; empty where both are the same."""
    if model.published_in is None:
        return {}
    plain = model.replace(quantization=None)
    unpacked = dtype if dtype in ELEMENT_BITS else PLAIN
    return {
        "plain_bytes": weight_bytes(plain, rows, PLAIN),
        "published_bytes": weight_bytes(plain.as_published(), rows, unpacked),
    }


def _by_path(weights: Iterable[tuple[Row, WeightBits]], depth: int) -> list[dict[str, Any]]:
    """Parameters by path, in the order of the forward; layers are folded, paths cut after `depth` steps."""
    entries: dict[str, dict[str, Any]] = {}
    totals: dict[str, WeightTotals] = {}
    for row, bits in weights:
        if row.weights:
            path = folded_path(row.path, depth) or "total"
            entry = entries.setdefault(path, {"path": path, "params": 0, "active_params": 0})
            entry["params"] += row.params
            entry["active_params"] += row.active_params
            totals[path] = totals.get(path, WeightTotals()).with_row(row, bits)
    return [
        {**entry, "bytes": totals[path].whole.bytes, "bits_per_weight": totals[path].bits_per_weight}
        for path, entry in entries.items()
    ]


def _sizes(model: Model, totals: Totals, dtype: str) -> Iterator[str]:
    """The answer: parameters in all and active, and the bytes that they take."""
    total, active = totals["params"], totals["active_params"]
    without_table = totals["active_params_excl_input_embedding"]
    parts = [f"{short_count(total)} parameters"]
    parts += ["all active" if active == total else f"{short_count(active)} active"]
    parts += [f"{short_count(without_table)} without the input table"] if without_table != active else []
    yield ", ".join(parts)
    if model.towers:
        yield f"{short_count(totals['params_with_towers'])} with its towers"
    if model.lora is not None:
        of_adapters = ", those of the adapters" if totals["trainable_params"] == totals["lora_params"] else ""
        yield f"{short_count(totals['trainable_params'])} train{of_adapters}"
    if totals["bytes"] is None:
        yield "bytes as stored are not known"
        return
    if model.quantization is None:
        yield f"{both_bytes(totals['bytes'])} in {dtype}"
        # beside it, the form that is published
        yield from (
            f"{both_bytes(totals['published_bytes'])} as published" for _ in _forms(model, totals)[1:]
        )
        return
    form = "as published" if model.is_as_published else f"as {dtype}" if dtype != PLAIN else "as stored"
    yield f"{both_bytes(totals['bytes'])} {form}, {totals['bits_per_weight']:.4g} bits a weight"


def _summary(model: Model, totals: Totals, dtype: str) -> Table:
    """The lines of the summary, without totals equal to the one above."""
    lines: list[tuple[str, int]] = [
        ("total", totals["params"]),
        ("active", totals["active_params"]),
        ("active, without the input table", totals["active_params_excl_input_embedding"]),
    ]
    # -1 is no total, so that the first line always stays
    new = [line for before, line in zip([("", -1), *lines], lines, strict=False) if line[1] != before[1]]
    parts = [
        ("token embedding", totals["embedding_params"]),
        ("head", totals["head_params"]),
        ("other tables", sum(totals["by_group"].get(group, 0) for group in OTHER_TABLES)),
    ]
    new += [(what, n) for what, n in parts if n]
    new += [("non-embedding", totals["non_embedding_params"]), *_of_training(totals)]
    shown: list[tuple[str, Any, Unit]] = [(what, n, "count") for what, n in new]
    if model.unknown_form:
        return facts("Parameters", *shown, ("bytes as stored", "not known", "text"))
    forms = _forms(model, totals)
    if model.quantization is None:
        plain = [(f"bytes in {dtype}", totals["bytes"]), *(forms if dtype != PLAIN else forms[1:])]
        return facts("Parameters", *shown, *((what, size, "bytes") for what, size in plain))
    shown += [
        (f"of {width} bits" if width.isdecimal() else f"in {width}", n, "count")
        for width, n in totals["params_by_width"].items()
    ]
    return facts(
        "Parameters",
        *shown,
        ("bytes as stored", totals["bytes"], "bytes"),
        *((what, size, "bytes") for what, size in (forms[:1] if model.is_as_published else forms)),
        ("bits per weight, scales included", totals["bits_per_weight"], "bits"),
        ("bits per weight, without scales", totals["bits_per_weight_without_scales"], "bits"),
    )


def _of_training(totals: Totals) -> Iterator[tuple[str, int]]:
    """Lines of adapters and of multi-token prediction, where there are any."""
    if totals["lora_params"]:
        yield "without adapters", totals["params"] - totals["lora_params"]
        yield "adapters, which alone train", totals["trainable_params"]
    if totals["mtp_params"]:
        yield "multi-token prediction (not in the total)", totals["mtp_params"]


def as_published(model: Model, totals: Mapping[str, Any]) -> tuple[str, ...]:
    """`627 GiB as published, fp8-block`, of a model in other than its published form; else nothing."""
    forms = _forms(model, totals)[1:] if model.quantization is None else []
    return tuple(f"{binary_bytes(size)} {name.removeprefix('bytes ')}" for name, size in forms)


def _forms(model: Model, totals: Mapping[str, Any]) -> list[tuple[str, int]]:
    """Lines of a model that is published in other than plain numbers: bytes of those, and as published."""
    if model.published_in is None:
        return []
    name = model.published_in.format or model.published_in.label
    published = f"bytes as published, {name}" if name else "bytes as published"
    return [(f"bytes in {PLAIN}", totals["plain_bytes"]), (published, totals["published_bytes"])]


def _groups(totals: Totals) -> Table:
    whole = totals["params"] or 1
    columns = (
        Column("group", "group"),
        Column("params", "params", "count"),
        Column("share", "share", "share"),
    )
    records = [{"group": group, "params": n, "share": n / whole} for group, n in totals["by_group"].items()]
    return Table("By group", columns, records, {"group": "total", "params": totals["params"], "share": 1.0})


def _parts(totals: Totals) -> Table:
    """Parameters of the whole: the language model, which other tables are about, and its towers."""
    columns = (Column("part", "part"), Column("params", "params", "count"))
    records = [{"part": part, "params": n} for part, n in totals["by_part"].items()]
    return Table("With towers", columns, records, {"part": "total", "params": totals["params_with_towers"]})


def _paths(model: Model, totals: Totals, rows: list[dict[str, Any]]) -> Table:
    moe = totals["active_params"] != totals["params"]
    columns = [Column("path", "path"), Column("params", "params", "count"), Column("bytes", "bytes", "bytes")]
    if moe:
        columns.insert(2, Column("active_params", "active", "count"))
    if model.quantization is not None:
        columns.append(Column("bits_per_weight", "bits per weight", "bits"))
    keys = ("params", "active_params", "bytes", "bits_per_weight")
    footer = {"path": "total", **{key: totals[key] for key in keys}}
    return Table("By path", tuple(columns), rows, footer)
