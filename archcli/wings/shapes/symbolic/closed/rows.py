"""Rows: the closed forms of `archcli show`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from archcli.graph import Row, StateContent
from archcli.measure.kvcache.cache_size import CacheDtypes
from archcli.measure.survey.folding import Folding
from archcli.measure.survey.show import list_rows
from archcli.measure.survey.wired import caching_forward
from archcli.modules.models.layers import LayerIndex
from archcli.modules.models.stack import stacks
from archcli.wings.shapes.symbolic import required
from archcli.wings.shapes.symbolic.closed.addresses import Address, Entry
from archcli.wings.shapes.symbolic.closed.free import FreeModel
from archcli.wings.shapes.symbolic.closed.held import bytes_held, growth_of
from archcli.wings.shapes.symbolic.closed.numbering import layer_numbers
from archcli.wings.shapes.symbolic.symbols import symbol


def show_forms(free: FreeModel) -> Iterator[Entry]:
    """The sizes of each row of a forward, which stands for all layers that are alike."""
    batch_size = symbol("batch_size")
    numeric = caching_forward(free.numeric, 2, 8)
    symbolic = caching_forward(free.symbolic, batch_size, symbol("seq_len"))
    folding = Folding(numeric, LayerIndex(free.numeric))
    alike: dict[str, list[Row]] = {}
    for at, row in zip(numeric.rows, symbolic.rows, strict=True):
        alike.setdefault(folding.renamed(at.id), []).append(row)
    for row_id, rows in alike.items():
        yield from ((Address("show", row_id, key), size) for key, size in _row_sizes(rows, batch_size))
    report = list_rows(free.numeric, 1, 8)
    yield from layer_numbers(free, report.rows)
    totals = report.totals
    for i, stack in enumerate(totals["stacks"]):
        for key, size in _stack_sizes(free, stack):
            yield Address("show", "", f"stacks.{i}.{key}"), size
    for i, key, size in _recurrence_sizes(free, totals["recurrences"]):
        yield Address("show", "", f"recurrences.{i}.{key}"), size


def _recurrence_sizes(free: FreeModel, records: list[dict[str, Any]]) -> Iterator[tuple[int, str, Any]]:
    """(number, key, size) of the facts of layers with a recurrence."""
    layers = zip(LayerIndex(free.numeric), LayerIndex(free.symbolic), strict=True)
    symbolic = {numeric.path: layer for numeric, layer in layers}
    for i, record in enumerate(records):
        recurrence = symbolic[record["path"]].facts(free.symbolic.d_model).recurrence
        if recurrence is not None:
            yield from ((i, key, size) for key, size in asdict(recurrence).items() if size is not None)


def _stack_sizes(free: FreeModel, stack: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """(key, size) of the numbers of layers of a stack: in all, and of its runs that are whole groups."""
    known = stacks(free.numeric)
    prefix, named = next((p, s) for p, s in known if (p.rstrip(".") or stack["name"]) == stack["name"])
    symbolic = dict(stacks(free.symbolic))[prefix].groups
    first, first_form = 0, required("sympy").Integer(0)
    groups: dict[tuple[int, int], tuple[Any, Any, int]] = {}
    for group, form in zip(named.groups, symbolic, strict=True):
        groups[first, group.n_layers] = first_form, form.n_layers, len(group.blocks)
        first, first_form = first + group.n_layers, first_form + form.n_layers
    yield "n_layers", first_form
    for i, run in enumerate(stack["runs"]):
        length = sum(run["lengths"])
        begin, layers, _ = groups.get((run["first"], run["times"] * length), (None, None, 0))
        if layers is not None:
            yield f"runs.{i}.first", begin
            # a run of like layers, or a pattern in turn
            like = len(run["lengths"]) == 1
            yield from [(f"runs.{i}.lengths.0", layers)] if like else [(f"runs.{i}.times", layers // length)]
            numbers = enumerate(() if like else run["lengths"])
            yield from ((f"runs.{i}.lengths.{place}", number) for place, number in numbers)


def _row_sizes(rows: list[Row], batch_size: Any) -> Iterator[tuple[str, Any]]:
    """(key, size) of a row that stands for several that are alike."""
    add, first = required("sympy").Add, rows[0]
    yield "times", add(*(row.times for row in rows))
    yield "params", add(*(row.params for row in rows))
    yield "layer_params", first.unit_params * (1 if first.experts is None else first.experts.n_experts)
    if first.experts is not None:
        yield "experts", first.experts.n_experts
    traits = first.op.traits(*first.inputs)
    if traits.mask is not None and traits.mask.window is not None:
        yield "mask.window", traits.mask.window
    if traits.router_groups is not None:
        yield "router_groups", traits.router_groups
    if traits.rotary_share is not None:
        yield "rotary_share", traits.rotary_share
    shapes = {f"inputs.{i}": shape for i, shape in enumerate(first.inputs)}
    shapes |= {f"outputs.{i}": shape for i, shape in enumerate(first.outputs)}
    shapes |= {f"weights.{name}": shape for name, shape in first.weights.items()}
    for key, shape in shapes.items():
        yield from ((f"{key}.{i}", size) for i, size in enumerate(shape))
    if first.states:
        times = add(*(row.times for row in rows))
        yield from ((f"cached.{key}", size) for key, size in _cached_sizes(first, times, batch_size))


def _cached_sizes(row: Row, times: Any, batch_size: Any) -> Iterator[tuple[str, Any]]:
    """(key, size) of what a row leaves in the cache, in so many layers."""
    add, dtypes = required("sympy").Add, CacheDtypes("bf16")
    contents, of_token = Counter[StateContent](), Counter[StateContent]()
    for state in row.states:
        contents[state.holds] += state.elements
        if state.tokens is not None:
            of_token[state.holds] += growth_of(state, batch_size)
    layer_bytes = bytes_held(dtypes, contents)
    constant = (state.elements / batch_size for state in row.states if state.tokens is None)
    yield "elements", add(*contents.values()) * times
    yield "bytes", layer_bytes * times
    yield "layer_bytes", layer_bytes
    yield "elements_per_token", add(*of_token.values())
    yield "bytes_per_token", bytes_held(dtypes, of_token)
    yield "constant_elements", add(*constant)
