"""Closed forms: every figure of show, params, kvcache and flops as a sympy expression, by its address."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

from archcli.arith import ELEMENT_BITS, Number
from archcli.graph import OpClass, Row, StateContent, StateKind
from archcli.measure.flops import component
from archcli.measure.kvcache.cache_size import OWN, CacheDtypes, state_contents
from archcli.measure.kvcache.kvcache import kinds_of
from archcli.measure.params import param_counts, prediction_totals
from archcli.measure.passes import GROWING, cache_pass, count_pass, shape_pass
from archcli.measure.survey.folding import Folding
from archcli.measure.survey.wired import caching_forward
from archcli.measure.symbolic import required
from archcli.measure.symbolic.closed.fractions import quotient
from archcli.measure.symbolic.closed.free import FreeModel
from archcli.measure.symbolic.symbols import symbol
from archcli.modules import Model
from archcli.modules.models.layers import LayerIndex, folded_path
from archcli.modules.spec.request import Request

CACHE_DTYPES = ("bf16", "fp8", "fp32", "q8_0", "q4_0")
"""The dtypes of a cache that have a closed form."""
DECODE = "decode"
"""In the place of a command: FLOPs of the token behind a context, as `flops --phase decode` counts them."""


class Address(NamedTuple):
    """Where the JSON of a command has a number: the path of a row, empty for a total, and keys by dots."""

    command: str
    path: str
    key: str


Forms: TypeAlias = dict[Address, Any]
Sizes: TypeAlias = Mapping[str, Number]


def closed_forms(free: FreeModel) -> Forms:
    """The closed form of each figure, in the symbols of the model and of the pass.

    Symbols of the pass are batch_size, seq_len (show, flops) and context (kvcache; the token that decoding
    adds sees context - 1 others).
    """
    forms: Forms = {}
    for reading in (_show, _params, _kvcache, _flops):
        for address, expression in reading(free):
            forms.setdefault(address, required("sympy").sympify(expression))
    return forms


def form_at(forms: Forms, address: Address) -> Any:
    """The closed form of a number that is drawn; None where it has none.

    Paths and keys joined by + are added up; the path of a module is the sum over the rows below it.
    """
    found = [
        form
        for path in address.path.split("+")
        for key in address.key.split("+")
        for form in _forms_below(forms, Address(address.command, path, key))
    ]
    return required("sympy").Add(*found) if found else None


def _forms_below(forms: Forms, address: Address) -> list[Any]:
    if address in forms or not address.path:
        return [forms[address]] if address in forms else []
    below = f"{address.path}."
    like = (at for at in forms if at.command == address.command and at.key == address.key)
    return [forms[at] for at in like if at.path.startswith(below)]


Entry: TypeAlias = tuple[Address, Any]


def _show(free: FreeModel) -> Iterator[Entry]:
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


def _row_sizes(rows: list[Row], batch_size: Any) -> Iterator[tuple[str, Any]]:
    """(key, size) of a row that stands for several that are alike."""
    add, first = required("sympy").Add, rows[0]
    yield "times", add(*(row.times for row in rows))
    yield "params", add(*(row.params for row in rows))
    yield "layer_params", first.unit_params * (1 if first.experts is None else first.experts.n_experts)
    if first.experts is not None:
        yield "experts", first.experts.n_experts
    mask = first.op.traits(*first.inputs).mask
    if mask is not None and mask.window is not None:
        yield "mask.window", mask.window
    shapes = {f"inputs.{i}": shape for i, shape in enumerate(first.inputs)}
    shapes |= {f"outputs.{i}": shape for i, shape in enumerate(first.outputs)}
    shapes |= {f"weights.{name}": shape for name, shape in first.weights.items()}
    for key, shape in shapes.items():
        yield from ((f"{key}.{i}", size) for i, size in enumerate(shape))
    if first.states:
        contents = state_contents(rows, tuple(StateKind))
        per_token = (s.elements / (batch_size * s.tokens) for s in first.states if s.tokens is not None)
        yield "cached.elements", add(*contents.values())
        yield "cached.bytes", bytes_held(CacheDtypes("bf16"), contents)
        yield "cached.elements_per_token", add(*per_token)


Rows: TypeAlias = Callable[[Model, Sizes], Iterable[Row]]


def _paired(free: FreeModel, read: Rows) -> Iterator[tuple[Row, Row]]:
    """(row in whole numbers, the same row in symbols): both traces run the same operations."""
    symbols = {name: symbol(name) for name in ("batch_size", "seq_len", "context")}
    usual = dict.fromkeys(symbols, 8)
    yield from zip(read(free.numeric, usual), read(free.symbolic, symbols), strict=True)


def _params(free: FreeModel) -> Iterator[Entry]:
    """Totals, groups and paths of `archcli params`."""
    pairs = [*_paired(free, lambda model, _: shape_pass(model).rows)]
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
    """The totals of rows: those of each distinct row, as often as it occurs."""
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
    """Sums by key, each as its summands and how often they occur: sympy adds many at once far sooner."""

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
    """An expression that may be a fraction as the nearest whole number, halves up."""
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
    one = {batch_size: 1, context: 1}
    growth = {content: n.xreplace(one) for content, n in _symbolic(held["kv_"])}
    yield Address("kvcache", "", "elements_per_token"), sum(growth.values())
    for dtype in CACHE_DTYPES:
        # of bf16, the usual dtype, under the keys of the JSON themselves
        suffix, dtypes = "" if dtype == "bf16" else f"@{dtype}", CacheDtypes(dtype)
        yield Address("kvcache", "", f"bytes_per_token{suffix}"), bytes_held(dtypes, growth)
        for name in kinds:
            yield Address("kvcache", "", f"{name}bytes{suffix}"), bytes_held(dtypes, held[name])
    yield from _cache_rows(free, batch_size, context)
    for name, changed in kinds_of(free.symbolic):
        contents = state_contents(cache_pass(changed, Request("prefill", batch_size, context)).rows)
        yield Address("kvcache", "", f"as_kind.{name}.elements"), sum(contents.values())
        for dtype in CACHE_DTYPES:
            suffix = "" if dtype == "bf16" else f"@{dtype}"
            held_bytes = bytes_held(CacheDtypes(dtype), contents)
            yield Address("kvcache", "", f"as_kind.{name}.bytes{suffix}"), held_bytes


def bytes_held(dtypes: CacheDtypes, contents: Mapping[StateContent, Any]) -> Any:
    """Bytes of this many elements, with `quotient(a, b)` in the place of a / b rounded down.

    sympy looks for whole parts in every floor of a sum: of a symbol that is done at once, of all summands
    it takes longer than the trace.
    """
    sympy = required("sympy")
    numbers = {content: symbol(f"elements/{content.value}") for content in contents}
    size = sympy.sympify(dtypes.bytes_of(numbers))
    whole = size.replace(sympy.floor, lambda inner: sympy.Function("quotient")(*quotient(inner)))
    return whole.xreplace({numbers[content]: sympy.sympify(n) for content, n in contents.items()})


def _symbolic(contents: Mapping[StateContent, Any]) -> Iterator[tuple[StateContent, Any]]:
    yield from ((content, required("sympy").sympify(n)) for content, n in contents.items())


def _cache_rows(free: FreeModel, batch_size: Any, context: Any) -> Iterator[Entry]:
    """Rows of the cache: those of each first layer, as long as no other layer's are alike."""
    numeric, symbolic = LayerIndex(free.numeric), LayerIndex(free.symbolic)
    rows = symbolic.by_layer(cache_pass(free.symbolic, Request("prefill", batch_size, context)).rows)
    for at, layer in zip(numeric, symbolic, strict=True):
        states = [state for row in rows.get(layer.path, ()) for state in row.states if state.kind in OWN]
        per_token = sum(
            state.elements / (batch_size * state.tokens) for state in states if state.tokens is not None
        )
        if states:
            contents: Counter[StateContent] = Counter()
            for state in states:
                contents[state.holds] += state.elements
            yield Address("kvcache", at.path, "elements_per_token"), per_token
            yield Address("kvcache", at.path, "elements_of_layer"), sum(contents.values())
            yield Address("kvcache", at.path, "bytes_of_layer"), bytes_held(CacheDtypes("bf16"), contents)


def _flops(free: FreeModel) -> Iterator[Entry]:
    """Totals and components of `archcli flops`, of a forward and of a token behind a context."""
    batch_size, context = symbol("batch_size"), symbol("context")
    yield from _costs(free, "flops", Request("forward", batch_size, symbol("seq_len")))
    yield Address("flops", "", "tokens"), batch_size * symbol("seq_len")
    if free.numeric.caches:
        yield from _costs(free, DECODE, Request("decode", batch_size, 1, context - 1))


def _costs(free: FreeModel, command: str, request: Request) -> Iterator[Entry]:
    """FLOPs in all, by component and by class."""
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
