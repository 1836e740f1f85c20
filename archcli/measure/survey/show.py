"""Show: the forward, operation by operation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

from archcli.arith import Number, rounded
from archcli.graph import OpClass, Row, StateContent
from archcli.graph.wired_tape import WiredRow
from archcli.measure.kvcache.cache_size import CacheDtypes
from archcli.measure.notes import context_notes
from archcli.measure.report import Column, Report, Table
from archcli.measure.survey.folding import folded
from archcli.measure.survey.stacks import stack_kinds, stack_records
from archcli.measure.survey.wired import caching_forward
from archcli.measure.weights.stored_bytes import stored
from archcli.modules import Model
from archcli.modules.models.layers import LayerIndex
from archcli.modules.spec.kinds import kind_of
from archcli.modules.spec.request import Medium, Request, usual_tokens
from archcli.units import short_count

CONVENTION = (
    "A layer stands once for all its like, `times` as often. Shapes are [batch, tokens, …]; "
    "params are those of all times and experts."
)

CACHE_DTYPE = "bf16"
"""The dtype of what is cached: the usual one of `archcli kvcache`."""
WEIGHTS = "bf16"
"""The dtype of weights that are not quantized: the usual one of `archcli params`."""


class RowPlace(NamedTuple):
    """Where an operation is: the stack, the number of the layer in it, and the way from there."""

    stack: str
    layer: str
    inside: str


def list_rows(
    model: Model, batch_size: int = 1, seq_len: int | None = None, media: tuple[Medium, ...] = ()
) -> Report:
    """The report of `archcli show`: every row of a forward."""
    model = model.with_media(media)
    text = usual_tokens(model.max_seq_len) if seq_len is None else seq_len
    trace = caching_forward(model, batch_size, text, media)
    seq_len = int(model.fitted(Request(seq_len=text, media=media)).seq_len)
    traced = traced_bytes(model, trace.rows)  # before layers are folded, which changes the rows
    wired = folded(trace, LayerIndex(model)).rows
    sizes = stored_bytes(wired, traced)
    rows = [_record(row, batch_size, sizes.get(row.id, 0)) for row in wired]
    params = sum(row["params"] for row in rows)
    recurrences = list(recurrence_records(model, wired))
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
        totals={
            "params": params,
            "rows": len(rows),
            "recurrences": recurrences,
            "stacks": stack_records(wired, kind_of(model) or "layers"),
        },
        rows=rows,
        tables=(Table("Forward", columns, shown, {"path": "total", "params": params}), *_tables(recurrences)),
        notes=tuple(context_notes(model, seq_len)),
        headline=f"{short_count(params)} parameters in {_layers(wired)}; {len(rows):,} different operations",
    )


def _layers(rows: Sequence[WiredRow]) -> str:
    """`12 layers`, of an encoder-decoder those of both stacks."""
    layers = sum(map(len, stack_kinds(rows).values()))
    return f"{layers:,} layer{'' if layers == 1 else 's'}"


def _record(row: WiredRow, batch_size: int, weight_bytes: int) -> dict[str, Any]:
    traits = row.op.traits(*row.inputs)
    return {
        "id": row.id,
        "path": row.path,
        "op": type(row.op).__name__,
        "group": row.group,
        "times": row.times,
        "layers": None if row.layers is None else list(row.layers),
        "reads": None if row.reads is None else list(row.reads),
        "inputs": [list(shape) for shape in row.inputs],
        "outputs": [list(shape) for shape in row.outputs],
        "weights": {name: list(shape) for name, shape in row.weights.items()},
        "experts": None if row.experts is None else row.experts.n_experts,
        "params": row.params,
        "layer_params": layer_params(row),
        "layer_flops": rounded(layer_flops(row)),
        "bytes": weight_bytes,
        "mask": None if traits.mask is None else traits.mask._asdict(),
        "cached": None if not row.states else cached_record(row, batch_size),
        "activation": traits.activation,
        "norm": traits.norm,
        "rotary_share": traits.rotary_share,
        "router_scores": traits.router_scores,
        "router_groups": traits.router_groups,
        "marks": list(traits.marks),
    }


def cached_record(row: WiredRow, batch_size: int = 1) -> dict[str, Any]:
    """What a row leaves in the cache, of all layers; `per_token` and `layer_bytes` are those of one."""
    contents, of_token = Counter[StateContent](), Counter[StateContent]()
    for state in row.states:
        contents[state.holds] += state.elements
        if state.tokens is not None:
            of_token[state.holds] += state.per_token(batch_size)
    layer_bytes = CacheDtypes(CACHE_DTYPE).bytes_of(contents)
    constant = [state for state in row.states if state.tokens is None]
    return {
        "elements": contents.total() * row.times,
        "bytes": layer_bytes * row.times,
        "layer_bytes": layer_bytes,
        "elements_per_token": of_token.total(),
        "bytes_per_token": CacheDtypes(CACHE_DTYPE).bytes_of(of_token),
        "constant_elements": sum(state.elements // batch_size for state in constant),
        "kind": " + ".join(dict.fromkeys(state.kind.value for state in row.states)),
        "holds": " + ".join(content.value for content in contents),
        "outputs": list(row.kept),
    }


def layer_params(row: WiredRow) -> Number:
    """Parameters of a row in one layer, those of all its experts included."""
    return row.unit_params * (row.experts.n_experts if row.experts else 1)


def recurrence_records(model: Model, rows: Sequence[WiredRow]) -> Iterator[dict[str, Any]]:
    """Facts of each distinct layer with a recurrence."""
    index = LayerIndex(model)
    alike = {path: of_layer[0].layers or () for path, of_layer in index.by_layer(rows).items()}
    for layer in (layer for layer in index if layer.path in alike):
        facts = layer.facts(model.d_model)
        if facts.recurrence is not None:
            sizes = asdict(facts.recurrence)
            yield {"path": layer.path, "times": len(alike[layer.path]), "mixer": facts.kind, **sizes}


def layer_flops(row: WiredRow) -> Number:
    """FLOPs of the matrix products of a row in one layer; 0 of weights by themselves."""
    parts = () if row.reads is None else row.op.parts(*row.inputs)
    of_products = (part for part in parts if not part.training and part.op_class is OpClass.CONTRACTION)
    return sum(part.flops for part in of_products)


def traced_bytes(model: Model, traced: Iterable[Row]) -> Counter[RowPlace]:
    """Bytes of weights as they are stored, by the place of an operation in each layer that was traced.

    Of the layers one by one, as those that are drawn as one may be stored in several widths.
    """
    sizes: Counter[RowPlace] = Counter()
    for row, bits in stored(model, traced, WEIGHTS):
        if row.weights:
            sizes[layer_of(row.path)] += bits.bytes
    return sizes


def stored_bytes(rows: Iterable[WiredRow], sizes: Mapping[RowPlace, int]) -> dict[str, int]:
    """Stored bytes by the ids of folded rows, which stand for several layers; none without weights."""
    ids: dict[RowPlace, str] = {}
    for row in rows:
        stack, layer, rest = layer_of(row.path)
        if row.weights:
            for number in row.layers or (layer,):
                ids.setdefault(RowPlace(stack, str(number), rest), row.id)
    of_rows: Counter[str] = Counter()
    for place, row_id in ids.items():
        of_rows[row_id] += sizes.get(place, 0)
    return of_rows


def layer_of(path: str) -> RowPlace:
    """The place that a path is at; outside of layers all is stack."""
    stack, layers, rest = path.partition("layers.")
    number, _, inside = rest.partition(".")
    return RowPlace(stack + layers, number, inside)


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
