"""Answer: the components of a quantity with their closed forms, each checked against the count."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from archcli.arith import Number
from archcli.errors import ArchError
from archcli.measure.passes import Pass
from archcli.modules import Model, substitute
from archcli.modules.attention.mixer import mixers
from archcli.wings.shapes.symbolic import required
from archcli.wings.shapes.symbolic.explain.components import (
    Component,
    components,
    require_known,
    selected,
    total,
)
from archcli.wings.shapes.symbolic.explain.question import Question
from archcli.wings.shapes.symbolic.explain.terms import Quantity, Term, Terms, of_tower, quantity
from archcli.wings.shapes.symbolic.symbols import ModelSymbols, sizes, without_idle_layers


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a question: components, the total, and the second figure beside it.

    `counted` is the pass in whole numbers that the formulas were checked against.
    """

    model: Model
    question: Question
    quantity: Quantity
    symbols: ModelSymbols
    counted: Pass
    components: list[Component]
    total: Any
    second: Any


def answered(model: Model, question: Question) -> Answer:
    """Trace the pass with numbers and with symbols. Raises ArchError where they differ."""
    required("sympy")
    model = without_idle_layers(model)
    if question.quantity == "kvcache" and not {*HEAD_DIM} & {*question.symbols, *question.at}:
        model = with_head_dims(model)
    measured = quantity(question.quantity, unmasked=question.mask == "dense")
    measured = measured if question.part is None else of_tower(measured)
    counted = measured.read(model, question.request)
    if question.path is not None:
        require_known(measured.terms(counted), model, question.path)
    symbols = question.symbols_of(model)
    # the second trace, now with symbols: its total at the model's sizes must be the first one's
    traced = measured.read(symbols.model, question.with_sizes(symbols.sizes))
    parts = components(symbols.model, _terms(measured.terms, traced, question, symbols.model, model), symbols)
    beside_terms = _terms(measured.beside_terms, traced, question, symbols.model, model)
    whole, further = total(parts, symbols), total(components(symbols.model, beside_terms, symbols), symbols)
    for terms, expression in ((measured.terms, whole), (measured.beside_terms, further)):
        of_numbers = _terms(terms, counted, question, model, model)
        _require_equal(symbols, expression, sum(term.total for term in of_numbers))
    return Answer(model, question, measured, symbols, counted, parts, whole, further)


HEAD_DIM = ("d_model", "n_heads")
"""What a head's width is made of where no file states it."""


def with_head_dims(model: Model) -> Model:
    """The model with `head_dim` as a size of its own where fewer heads of keys than of queries share it.

    Textbooks write the cache 2 L n_kv_heads head_dim T, as it stands beside MLA's kv_lora_rank.
    """
    facts = {f"{path}.head_dim": mixer.facts(model.d_model) for path, mixer in mixers(model)}
    left_out = [path for path, _, value in sizes(model) if value is None and path in facts]
    grouped = [path for path in left_out if facts[path].n_kv_heads != facts[path].n_heads]
    return substitute(model, {path: facts[path].head_dim for path in grouped})


def _terms(terms: Terms, counted: Pass, question: Question, model: Model, numeric: Model) -> Iterator[Term]:
    """The terms of a pass, those at the question's path if it has one."""
    of_pass = terms(counted)
    return of_pass if question.path is None else selected(model, of_pass, question.path, numeric)


def _require_equal(symbols: ModelSymbols, expression: Any, count: Number) -> None:
    value = symbols.value(expression)
    if value != required("sympy").Rational(str(count)):
        raise ArchError(f"the formula {expression} gives {value}, counting gives {count}", "report this")
