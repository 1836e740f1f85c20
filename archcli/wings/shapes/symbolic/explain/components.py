"""Components: the terms of a quantity by heading and kind of layer, with formulas."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from archcli.arith import Number
from archcli.errors import ArchError, Problem, quote, suggest
from archcli.modules import Model
from archcli.modules.models.layers import LayerIndex, folded_path, stated_layers
from archcli.wings.shapes.symbolic import required
from archcli.wings.shapes.symbolic.explain.terms import Term
from archcli.wings.shapes.symbolic.symbols import ModelSymbols


@dataclass
class Component:
    """The terms of one heading, of all layers with equal terms or outside of layers.

    heading: `attention`, `ffn`, `embedding`.
    bodies: the sum of terms that occur equally often, by how often: {n_layers: 3*d_ff*d_model}.
    terms: of one layer.
    steps: paths of their operations below the layer, `ffn.up_proj`.
    mixer: `cross_attention` for terms of a layer's second mixer; else empty.
    layers: YAML paths of the layers; empty outside of layers.
    name: the heading, with the layers where several components have it.
    """

    heading: str
    bodies: dict[Any, Any]
    terms: list[Term]
    steps: list[str]
    mixer: str = ""
    layers: list[str] = field(default_factory=list)
    name: str = ""

    @property
    def formula(self) -> Any:
        """The sum over all layers."""
        return required("sympy").Add(*(times * body for times, body in self.bodies.items()))


def components(model: Model, terms: Iterable[Term], symbols: ModelSymbols) -> list[Component]:
    """The components of a model with symbols as sizes, in the order of its forward."""
    index = LayerIndex(model)
    layers = {layer.path: layer.yaml_path for layer in stated_layers(model)}
    by_layer: dict[tuple[str, str, str], list[tuple[str, Term]]] = {}
    for term in terms:
        if term.total == 0:
            continue
        layer, step = split_path(index, term.path)
        mixer = _mixer(term, step) if layer else ""
        by_layer.setdefault((layer, term.heading, mixer), []).append((step, term))
    merged: dict[Any, tuple[Component, list[Any]]] = {}
    for (layer, heading, mixer), steps in by_layer.items():
        bodies = _bodies(steps, symbols)
        kind = heading, mixer, bool(layer), tuple(bodies.values())  # layers may be alike
        if kind not in merged:
            terms, below = [term for _, term in steps], [step for step, _ in steps]
            merged[kind] = Component(heading, bodies, terms, below, mixer), []
        component, places = merged[kind]
        component.layers += [layers.get(layer, layer)] if layer else []
        places.append(list(bodies))
    for component, places in merged.values():
        component.bodies = _settled(component.bodies.values(), places, symbols)
    parts = [component for component, _ in merged.values()]
    _name(parts)
    return parts


def _settled(bodies: Iterable[Any], places: Iterable[Any], symbols: ModelSymbols) -> dict[Any, Any]:
    """The bodies by how often they occur in all layers; `places` has the numbers of each layer."""
    settled: dict[Any, Any] = {}
    for body, numbers in zip(bodies, zip(*places, strict=True), strict=True):
        times = symbols.occurrences(required("sympy").Add(*numbers))
        settled[times] = settled.get(times, 0) + body
    return settled


def split_path(index: LayerIndex, path: str) -> tuple[str, str]:
    """(path of the layer, steps below it) of a row's path; outside of layers the first is empty."""
    for prefix in index.prefixes:
        if path.startswith(prefix):
            number, _, rest = path.removeprefix(prefix).partition(".")
            return prefix + number, rest
    return "", path


def _mixer(term: Term, step: str) -> str:
    """`cross_attention` for a term of a layer's second mixer; empty for any other."""
    mixer, dot, _ = step.partition(".")
    kind, _, family = mixer.rpartition("_")
    return mixer if dot and kind and term.heading.startswith(family) else ""


def _bodies(steps: Iterable[tuple[str, Term]], symbols: ModelSymbols) -> dict[Any, Any]:
    """The sum of the terms that occur equally often, by how often."""
    sympify = required("sympy").sympify
    sums: dict[Any, Number] = {}
    for _, term in steps:
        times = sympify(term.times)
        sums[times] = sums.get(times, 0) + term.unit * term.experts
    return {times: symbols.factored(body) for times, body in sums.items()}


def _name(parts: Iterable[Component]) -> None:
    """Name each component by its heading; several of one heading by their layers too."""
    kin: dict[tuple[str, str], list[Component]] = {}
    for part in parts:
        kin.setdefault((part.heading, part.mixer), []).append(part)
    for (heading, mixer), alike in kin.items():
        stem = f"{heading} of {mixer}" if mixer else heading
        are_apart = sum(bool(part.layers) for part in alike) > 1
        for part in alike:
            part.name = stem if len(alike) == 1 else _placed_name(part, stem, are_apart=are_apart)


def _placed_name(part: Component, stem: str, *, are_apart: bool) -> str:
    """The heading of a component with its layers, if layers differ in it (`are_apart`)."""
    if part.layers:
        return f"{stem} of {'; '.join(shortened(part.layers))}" if are_apart else stem
    ends = dict.fromkeys(part.steps)
    return f"{stem} of {next(iter(ends))}" if len(ends) == 1 else f"{stem} outside of layers"


def shortened(paths: Iterable[str]) -> Iterator[str]:
    """YAML paths with the numbers of neighbours joined: `groups.0.pattern.0-4`."""
    stems: dict[tuple[str, str], list[int]] = {}
    for path in paths:
        steps = path.split(".")
        at = max((i for i, step in enumerate(steps) if step.isdecimal()), default=None)
        if at is None:
            yield path
        else:
            stems.setdefault((".".join(steps[:at]), ".".join(steps[at + 1 :])), []).append(int(steps[at]))
    for (stem, rest), numbers in stems.items():
        yield ".".join(filter(None, (stem, ",".join(_runs(numbers)), rest)))


def _runs(numbers: list[int]) -> Iterator[str]:
    """Numbers in order, consecutive ones as a range: 0-4, 6."""
    start = before = numbers[0]
    # None closes the last range
    for number in [*numbers[1:], None]:
        if number is not None and number == before + 1:
            before = number
            continue
        yield str(start) if start == before else f"{start}-{before}"
        if number is not None:
            start = before = number


def total(parts: Iterable[Component], symbols: ModelSymbols) -> Any:
    """The sum of components, grouped by how many layers have them."""
    sympy = required("sympy")
    sums: dict[Any, list[Any]] = {}
    for part in parts:
        for times, body in part.bodies.items():
            sums.setdefault(times, []).append(body)
    return sympy.Add(*(times * symbols.factored(sympy.Add(*bodies)) for times, bodies in sums.items()))


def selected(model: Model, terms: Iterable[Term], below: str, numeric: Model) -> Iterator[Term]:
    """The terms at or below a path: `layers.*.attention` of all layers, `layers.3.attention` of that one.

    `numeric` is the model with whole numbers as sizes, `model` the same or one with symbols.
    """
    single = _counted_path(model, below, numeric)
    for term in terms:
        path = term.path if single is not None else folded_path(term.path)
        if f"{path}.".startswith(f"{below if single is None else single}."):
            # the row stands for all like layers; the path asks for one
            yield term._replace(times=1) if single is not None and term.times != 0 else term


def _counted_path(model: Model, path: str, numeric: Model) -> str | None:
    """For a path in one layer the path of its counted row, `layers.3.ffn` by `layers.0.ffn`; else None."""
    index = LayerIndex(numeric)
    layer, rest = split_path(index, index.counted_path(path))
    if not layer or layer.endswith("*"):
        return None
    # both models have the same YAML paths, but may fold their layers at other numbers
    yaml_paths = {layer.path: layer.yaml_path for layer in stated_layers(numeric)}
    rows = {layer.yaml_path: layer.path for layer in stated_layers(model)}
    counted = rows.get(yaml_paths.get(layer, ""), layer)
    return f"{counted}.{rest}" if rest else counted


def require_known(terms: Iterable[Term], numeric: Model, path: str) -> None:
    """Raise ArchError for a path without parameters."""
    terms = list(terms)
    if any(selected(numeric, terms, path, numeric)):
        return
    known: dict[str, None] = {}
    for term in terms:
        steps = folded_path(term.path).split(".")
        known |= dict.fromkeys(".".join(steps[:n]) for n in range(1, len(steps) + 1))
    hint = suggest(folded_path(path), known, "`archcli params` lists")
    raise ArchError(Problem(f"no parameters at {quote(path, 80)}", hint))
