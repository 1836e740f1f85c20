"""Show: the forward, operation by operation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from archcli.graph import Row
from archcli.measure.notes import context_notes
from archcli.measure.passes import shape_pass
from archcli.measure.report import Column, Report, Table
from archcli.modules import Model
from archcli.modules.models.layers import LayerIndex
from archcli.modules.spec.request import Request

CONVENTION = (
    "A layer stands once for all its like, `times` as often. Shapes are [batch, tokens, …]; "
    "params are those of all times and experts."
)


def list_rows(model: Model, batch_size: int = 1, seq_len: int = 2048) -> Report:
    """The report of `archcli show`: every row of a forward."""
    request = Request("forward", batch_size, seq_len)
    rows = [_record(row) for row in shape_pass(model, request).rows]
    params = sum(row["params"] for row in rows)
    recurrences = list(_recurrences(model))
    columns = (
        Column("path", "path"),
        Column("times", "times", "number"),
        Column("op", "op"),
        Column("shape", "output"),
        Column("params", "params", "count"),
    )
    shown = [{**row, "shape": " ".join(_shape(shape) for shape in row["outputs"])} for row in rows]
    return Report(
        command="show",
        model={"name": model.name, "source": model.source},
        inputs={"batch_size": batch_size, "seq_len": seq_len},
        usual={"batch_size": 1},
        convention=CONVENTION,
        totals={"params": params, "rows": len(rows), "recurrences": recurrences},
        rows=rows,
        tables=(Table("Forward", columns, shown, {"path": "total", "params": params}), *_tables(recurrences)),
        notes=tuple(context_notes(model, seq_len)),
    )


def _record(row: Row) -> dict[str, Any]:
    return {
        "path": row.path,
        "op": type(row.op).__name__,
        "group": row.group,
        "times": row.times,
        "inputs": [list(shape) for shape in row.inputs],
        "outputs": [list(shape) for shape in row.outputs],
        "weights": {name: list(shape) for name, shape in row.weights.items()},
        "experts": None if row.experts is None else row.experts.n_experts,
        "params": row.params,
    }


def _recurrences(model: Model) -> Iterator[dict[str, Any]]:
    """Facts of each distinct layer with a recurrence."""
    for layer in LayerIndex(model):
        facts = layer.facts(model.d_model)
        if facts.recurrence is not None:
            sizes = asdict(facts.recurrence)
            yield {"path": layer.path, "times": layer.times, "mixer": facts.kind, **sizes}


def _tables(recurrences: list[dict[str, Any]]) -> Iterator[Table]:
    titles = {
        "times": "times",
        "n_heads": "heads",
        "n_groups": "groups",
        "key_dim": "key width",
        "value_dim": "value width",
        "conv_kernel": "conv",
        "chunk": "chunk",
    }
    numbers = [Column(key, title, "number") for key, title in titles.items()]
    if recurrences:
        columns = (Column("path", "path"), Column("mixer", "mixer"), *numbers)
        yield Table("Recurrent layers", columns, recurrences)


def _shape(shape: list[int]) -> str:
    return f"[{', '.join(map(str, shape))}]"
