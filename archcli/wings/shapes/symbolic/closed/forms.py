"""Closed forms: every figure of show, params, kvcache and flops as a sympy expression, by its address."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from archcli.arith import ELEMENT_BITS
from archcli.graph import OpClass, Row, StateContent, StateKind
from archcli.measure.flops import component
from archcli.measure.kvcache.cache_size import OWN, CacheDtypes, state_contents
from archcli.measure.kvcache.kvcache import kinds_of
from archcli.measure.params import param_counts, prediction_totals
from archcli.measure.passes import GROWING, cache_pass, count_pass, shape_pass
from archcli.modules import Model
from archcli.modules.models.layers import LayerIndex, folded_path
from archcli.modules.spec.request import Request
from archcli.wings.shapes.symbolic import required
from archcli.wings.shapes.symbolic.closed.addresses import CACHE_DTYPES, DECODE, Address, Entry, Forms
from archcli.wings.shapes.symbolic.closed.free import FreeModel
from archcli.wings.shapes.symbolic.closed.held import bytes_held, growth_of
from archcli.wings.shapes.symbolic.closed.rows import show_forms
from archcli.wings.shapes.symbolic.symbols import symbol


def closed_forms(free: FreeModel) -> Forms:
    """The closed form of each figure, in the symbols of the model and of the pass.

    Symbols of the pass are batch_size, seq_len (show, flops) and context (kvcache; the token that decoding
    adds sees context - 1 others).
    """
    forms: Forms = {}
    for reading in (show_forms, _params, _kvcache, _flops):
        for address, expression in reading(free):
            forms.setdefault(address, required("sympy").sympify(expression))
    return forms


def _params(free: FreeModel) -> Iterator[Entry]:
    """Totals, groups and paths of `archcli params`."""
    # both traces run the same operations
    pairs = list(zip(shape_pass(free.numeric).rows, shape_pass(free.symbolic).rows, strict=True))
    rows = [row for _, row in pairs]
    totals = _param_totals(free.symbolic, rows) | prediction_totals(free.symbolic, rows)
    yield from _totals("params", totals)
    folded: dict[str, Sums] = {"": Sums({"params": Counter({totals["params"]: 1})})}
    for at, row in pairs:
        if row.weights:
            sums = folded.setdefault(folded_path(at.path, 3) or "total", Sums())
            sums.add("params", row.params)
            sums.add("active_params", _nearest(row.active_params))
    for path, sums in folded.items():
        yield from ((Address("params", path, key), n) for key, n in sums.totals())
        # packings look at whole numbers: whether a row is made of whole blocks
        if free.numeric.quantization is None:
            yield (
                Address("params", path, "bytes"),
                dict(sums.totals())["params"] * (ELEMENT_BITS["bf16"] // 8),
            )


def _param_totals(model: Model, rows: Iterable[Row]) -> dict[str, Any]:
    """The sums over rows, each distinct row multiplied by its number."""
    alike: dict[Any, tuple[Row, int]] = {}
    for row in rows:
        like = row.group, row.trained, row.params, row.active_params
        alike[like] = row, alike.get(like, (row, 0))[1] + 1
    sums = Sums()
    for row, occurrences in alike.values():
        counts, by_group = param_counts(model, [row])
        # a row's expected number is rounded before rows are added up
        rounding = _nearest(row.active_params) - row.active_params
        for key in ("active_params", "active_params_excl_input_embedding"):
            counts[key] += rounding
        counts |= {f"by_group.{group}": n for group, n in by_group.items()}
        # no key of the JSON: what a token reads of each group
        counts[f"active_by_group.{row.group}"] = _nearest(row.active_params)
        for key, number in counts.items():
            sums.add(key, number, occurrences)
    return dict(sums.totals())


class Sums(dict[Any, Counter[Any]]):
    """Sums by key, as summands with their numbers: sympy adds many at once far sooner."""

    def add(self, key: Any, summand: Any, times: int = 1) -> None:
        """Add a summand to the sum of a key, some number of times."""
        self.setdefault(key, Counter())[required("sympy").sympify(summand)] += times

    def totals(self) -> Iterator[tuple[Any, Any]]:
        """(key, sum) of all keys."""
        add = required("sympy").Add
        yield from (
            (key, add(*(n * times for n, times in summands.items()))) for key, summands in self.items()
        )


def _nearest(number: Any) -> Any:
    """An expression rounded to the nearest whole number, halves up."""
    sympy = required("sympy")
    expression = sympy.sympify(number)
    return expression if expression.is_integer else sympy.floor(expression + sympy.Rational(1, 2))


def _totals(command: str, totals: Mapping[str, Any]) -> Iterator[Entry]:
    yield from ((Address(command, "", key), value) for key, value in totals.items())


def _kvcache(free: FreeModel) -> Iterator[Entry]:
    """Totals of `archcli kvcache` in each dtype, and its rows in bf16."""
    batch_size, context = symbol("batch_size"), symbol("context")
    if not free.numeric.caches:
        return
    rows = cache_pass(free.symbolic, Request("prefill", batch_size, context)).rows
    kinds = {"": OWN, "kv_": GROWING, "state_": (StateKind.FIXED,), "cross_": (StateKind.SOURCE,)}
    held = {name: state_contents(rows, of_kind) for name, of_kind in kinds.items()}
    yield from _totals("kvcache", {f"{name}elements": sum(held[name].values()) for name in kinds})
    yield from _totals("kvcache", {f"by_content.{content.value}": n for content, n in held[""].items()})
    ones = {batch_size: 1, context: 1}
    growing = state_contents(rows, GROWING, lambda state: growth_of(state, batch_size))
    growth = {content: n.xreplace(ones) for content, n in _symbolic(growing)}
    yield Address("kvcache", "", "elements_per_token"), sum(growth.values())
    for dtype in CACHE_DTYPES:
        # of bf16, the usual dtype, under the keys of the JSON themselves
        suffix, dtypes = "" if dtype == "bf16" else f"@{dtype}", CacheDtypes(dtype)
        yield Address("kvcache", "", f"bytes_per_token{suffix}"), bytes_held(dtypes, growth)
        for name in kinds:
            yield Address("kvcache", "", f"{name}bytes{suffix}"), bytes_held(dtypes, held[name])
    yield from _cache_rows(free, batch_size, context)
    for name, changed in _other_kinds(free.symbolic):
        contents = state_contents(cache_pass(changed, Request("prefill", batch_size, context)).rows)
        yield Address("kvcache", "", f"as_kind.{name}.elements"), sum(contents.values())
        for dtype in CACHE_DTYPES:
            suffix = "" if dtype == "bf16" else f"@{dtype}"
            held_bytes = bytes_held(CacheDtypes(dtype), contents)
            yield Address("kvcache", "", f"as_kind.{name}.bytes{suffix}"), held_bytes


def _other_kinds(model: Model) -> Iterator[tuple[str, Model]]:
    """The model with other kinds of attention, those whose shape does not depend on its sizes."""
    try:
        yield from kinds_of(model)
    except TypeError:
        # attention in all layers is that of most layers: of several kinds, numbers of layers decide
        return


def _symbolic(contents: Mapping[StateContent, Any]) -> Iterator[tuple[StateContent, Any]]:
    yield from ((content, required("sympy").sympify(n)) for content, n in contents.items())


def _cache_rows(free: FreeModel, batch_size: Any, context: Any) -> Iterator[Entry]:
    """Cached elements of a token in a layer, for each set of layers with equal caches."""
    numeric, symbolic = LayerIndex(free.numeric), LayerIndex(free.symbolic)
    rows = symbolic.by_layer(cache_pass(free.symbolic, Request("prefill", batch_size, context)).rows)
    for at, layer in zip(numeric, symbolic, strict=True):
        states = [state for row in rows.get(layer.path, ()) for state in row.states if state.kind in OWN]
        growing = [state for state in states if state.tokens is not None]
        if states:
            per_token = sum(growth_of(state, batch_size) for state in growing)
            yield Address("kvcache", at.path, "elements_per_token"), per_token


def _flops(free: FreeModel) -> Iterator[Entry]:
    """Totals and components of `archcli flops`, of a forward and of a token behind a context."""
    batch_size, context = symbol("batch_size"), symbol("context")
    yield from _costs(free, "flops", Request("forward", batch_size, symbol("seq_len")))
    yield Address("flops", "", "tokens"), batch_size * symbol("seq_len")
    if free.numeric.caches:
        yield from _costs(free, DECODE, Request("decode", batch_size, 1, context - 1))


def _costs(free: FreeModel, command: str, request: Request) -> Iterator[Entry]:
    """FLOPs in total, by component and by class."""
    sums = Sums()
    for row, op_class, flops in count_pass(free.symbolic, request).costs():
        matmul = op_class is OpClass.CONTRACTION
        name, key = component(row), "matmul_flops" if matmul else "other_flops"
        sums.add(("", f"by_class.{op_class.value}"), flops)
        sums.add(("", key), flops)
        sums.add((name, key), flops)
        if matmul:
            sums.add(("", f"by_component.{name}"), flops)
            sums.add((name, "other_flops"), 0)
    for (path, key), expression in sums.totals():
        # rounded only behind the sums: a share of targets or of zero experts makes FLOPs fractions
        yield Address(command, path, key), expression
        if (path, key) == ("", "matmul_flops"):
            tokens = request.batch_size * request.seq_len
            yield Address(command, path, "matmul_flops_per_token"), expression / tokens
