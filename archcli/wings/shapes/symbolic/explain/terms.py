"""Terms of a quantity: the contribution of each operation of a pass, in numbers or symbols."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from archcli.arith import Number, prod
from archcli.graph import OpClass, StateKind
from archcli.graph.count_tape import ShapeTape
from archcli.measure.flops import component
from archcli.measure.passes import Pass, cache_pass, checked_pass, count_pass, shape_pass, tower_rows
from archcli.modules import Model
from archcli.modules.spec import arguments
from archcli.modules.spec.request import Request

if TYPE_CHECKING:  # of models with towers alone
    from archcli.wings.media.modules.models.tower import Tower

OWN = (StateKind.TOKENS, StateKind.WINDOW, StateKind.FIXED)
"""States of the tokens themselves, without those of an encoder's output."""


class Term(NamedTuple):
    """The contribution of one operation: `unit` * `experts` * `times`.

    path: of the operation in one layer.
    heading: the component under which reports list it.
    name: of a weight, a part of the cost, or the content of a state.
    unit: of one expert in one layer.
    times: layers with this operation.
    experts: experts that are counted; 1 without experts.
    """

    path: str
    heading: str
    name: str
    unit: Number
    times: Number
    experts: Number = 1

    @property
    def total(self) -> Number:
        """The contribution of all places."""
        return self.unit * self.experts * self.times


Terms: TypeAlias = Callable[[Pass], Iterator[Term]]


class Quantity(NamedTuple):
    """A quantity to explain, and a second figure that is printed beside it.

    title, unit: of the sum of the terms.
    read: traces the pass.
    terms: reads the terms off the pass.
    second: the key of the second figure, `active`.
    beside_title, beside_terms: its title and terms.
    """

    title: str
    unit: Literal["count", "flops"]
    read: Callable[[Any, Request], Pass]
    terms: Terms
    second: str
    beside_title: str
    beside_terms: Terms


def _parameters(counted: Pass, *, active: bool) -> Iterator[Term]:
    """A term for each weight; of routed experts all, or with `active` those that run for a token."""
    for row in counted.rows:
        n_experts = 1 if row.experts is None else row.experts.top_k if active else row.experts.n_experts
        for name, shape in row.weights.items():
            yield Term(row.path, row.group or "other", name, prod(shape), row.copies, n_experts)


def flop_terms(counted: Pass, *, contractions: bool, unmasked: bool = False) -> Iterator[Term]:
    """A term for each part of a cost: matrix products, or all the others."""
    for row in counted.rows:
        for stage, name, part in row.pieces(counted.phase):
            if (part.op_class is OpClass.CONTRACTION) is contractions:
                flops = part.unmasked_flops if unmasked else part.flops
                yield Term(row.path, component(row), f"{stage} {name}", flops, row.times)


def _elements(counted: Pass, kinds: Container[StateKind]) -> Iterator[Term]:
    """A term for each state of these kinds."""
    for row in counted.rows:
        for state in row.states:
            if state.kind in kinds:
                content = state.holds.value
                yield Term(row.path, content, content, state.elements, row.times)


def of_tower(measured: Quantity) -> Quantity:
    """The quantity of a tower with its projector, over the image or sound of a request."""
    return measured._replace(read=_tower_costs if measured.unit == "flops" else _tower_shapes)


def quantity(name: arguments.Quantity, *, unmasked: bool = False) -> Quantity:
    """The quantity of a name; `unmasked` also counts the FLOPs of scores that a mask forbids."""
    if name == "params":
        all_of_them, active = partial(_parameters, active=False), partial(_parameters, active=True)
        return Quantity("parameters", "count", _shapes, all_of_them, "active", "active per token", active)
    if name == "kvcache":
        tokens, cross = partial(_elements, kinds=OWN), partial(_elements, kinds=(StateKind.SOURCE,))
        return Quantity("elements", "count", cache_pass, tokens, "cross", "of the encoder's output", cross)
    matmul = partial(flop_terms, contractions=True, unmasked=unmasked)
    non_matmul = partial(flop_terms, contractions=False, unmasked=unmasked)
    return Quantity("matmul FLOPs", "flops", _costs, matmul, "other", "non-matmul FLOPs", non_matmul)


def _shapes(model: Model, _: Request) -> Pass:
    return shape_pass(model)


def _costs(model: Model, request: Request) -> Pass:
    # a trace with symbols follows one with numbers, which was checked already
    return checked_pass(model, request) if request.is_plain else count_pass(model, request)


def _tower_shapes(tower: Tower, request: Request) -> Pass:
    return Pass(request, tower_rows(tower, tower.usual, ShapeTape))


def _tower_costs(tower: Tower, request: Request) -> Pass:
    # its own usual sound has as many frames as the symbol of its positions says
    medium = request.media[0] if request.media else tower.usual
    return Pass(request, tower_rows(tower, medium, request=request))
