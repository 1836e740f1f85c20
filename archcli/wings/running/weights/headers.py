"""What a checkpoint's headers list, where nothing beside it says which architecture it is of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from archcli.arith import Shape, prod
from archcli.measure.report import Column, Report, Table, facts
from archcli.units import both_bytes, short_count
from archcli.wings.running.weights.checkpoint import shape_text, with_wildcards

MOST_LISTED = 20
"""Rows of the table; json and csv have all."""

CONVENTION = (
    "Every stored element counts: buffers, scales, packed integers and a second copy of a tied weight too. "
    "This is no architecture: active parameters, FLOPs and a cache cannot be told from names and shapes."
)


class StoredTensor(NamedTuple):
    """A tensor of a header; `shape` is None where its file is missing."""

    name: str
    dtype: str
    shape: Shape | None
    size_bytes: int


def count_headers(stored: Sequence[StoredTensor], notes: Sequence[str]) -> Report:
    """Elements, bytes and dtypes of stored tensors, and the tensors by size, alike ones in one row."""
    rows = sorted(_folded(stored), key=lambda row: (-row["bytes"], row["name"]))
    known = [tensor for tensor in stored if tensor.shape is not None]
    by_dtype = {dtype: _sum(known, dtype) for dtype in sorted({tensor.dtype for tensor in known})}
    totals: dict[str, Any] = {
        "stored_elements": sum(entry["elements"] for entry in by_dtype.values()),
        "bytes": sum(tensor.size_bytes for tensor in known),
        "tensors": len(stored),
        "tensors_without_shape": len(stored) - len(known),
        "by_dtype": by_dtype,
    }
    headline = f"{short_count(totals['stored_elements'])} stored elements in {len(stored):,} tensors"
    headline += f", {both_bytes(totals['bytes'])}"
    tables = tuple(_tables(totals, rows))
    return Report("params", {}, {}, CONVENTION, totals, rows, tables, tuple(notes), headline=headline)


def _sum(stored: Sequence[StoredTensor], dtype: str) -> dict[str, int]:
    same = [tensor for tensor in stored if tensor.dtype == dtype]
    return {
        "elements": sum(_elements(tensor) for tensor in same),
        "bytes": sum(tensor.size_bytes for tensor in same),
        "tensors": len(same),
    }


def _elements(tensor: StoredTensor) -> int:
    return 0 if tensor.shape is None else int(prod(tensor.shape))


def _folded(stored: Sequence[StoredTensor]) -> Iterator[dict[str, Any]]:
    """A row for tensors that differ in an index alone: layers.*.mlp.up_proj.weight."""
    alike: dict[tuple[str, str, Shape | None], list[StoredTensor]] = {}
    for tensor in stored:
        alike.setdefault((with_wildcards(tensor.name), tensor.dtype, tensor.shape), []).append(tensor)
    for (name, dtype, shape), same in alike.items():
        yield {
            "name": name if len(same) > 1 else same[0].name,
            "times": len(same),
            "dtype": dtype,
            "shape": None if shape is None else list(shape),
            "elements": sum(map(_elements, same)),
            "bytes": sum(tensor.size_bytes for tensor in same),
        }


def _tables(totals: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> Iterator[Table]:
    yield facts(
        "Stored tensors, no architecture",
        ("elements", totals["stored_elements"], "count"),
        ("bytes", totals["bytes"], "bytes"),
        ("tensors", totals["tensors"], "number"),
    )
    sizes = (Column("elements", "elements", "count"), Column("bytes", "bytes", "bytes"))
    dtypes = [{"dtype": dtype, **entry} for dtype, entry in totals["by_dtype"].items()]
    if dtypes:
        by_dtype = (Column("dtype", "dtype"), Column("tensors", "tensors", "number"), *sizes)
        yield Table("By dtype", by_dtype, dtypes)
    shown = [{**row, "shape": shape_text(row["shape"])} for row in rows[:MOST_LISTED]]
    columns = (Column("name", "tensor"), Column("times", "times", "number"), Column("dtype", "dtype"))
    left = f", {MOST_LISTED} of {len(rows)}" if len(rows) > MOST_LISTED else ""
    yield Table(f"Largest tensors{left}", (*columns, Column("shape", "shape"), *sizes), shown)
