"""Components: the terms of a quantity by heading and by kind of layer, each with its closed form."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from archcli.arith import Number
from archcli.measure.symbolic import required
from archcli.measure.symbolic.explain.terms import Term
from archcli.measure.symbolic.symbols import ModelSymbols
from archcli.modules import Model
from archcli.modules.layers import LayerIndex, stated_layers


@dataclass
class Component:
    """One heading in layers that have the same of it, or outside of all layers.

    `bodies` are what it adds by the number of places, once each; `terms` those of one layer; `layers` the
    YAML paths of the layers, none outside; `steps` the paths of its operations below the layer.
    """

    heading: str
    bodies: dict[Any, Any]
    terms: list[Term]
    steps: list[str]
    layers: list[str] = field(default_factory=list)
    name: str = ""

    @property
    def formula(self) -> Any:
        """What it adds in all places."""
        return required("sympy").Add(*(times * body for times, body in self.bodies.items()))


def components(model: Model, terms: Iterable[Term], symbols: ModelSymbols) -> list[Component]:
    """The components of a model with symbols as sizes, in the order of its forward."""
    index = LayerIndex(model)
    layers = {layer.path: layer.yaml_path for layer in stated_layers(model)}
    by_layer: dict[tuple[str, str], list[tuple[str, Term]]] = {}
    for term in terms:
        if term.total == 0:
            continue
        layer, step = split_path(index, term.path)
        by_layer.setdefault((layer, _heading(term, step if layer else "")), []).append((step, term))
    merged: list[Component] = []
    for (layer, heading), steps in by_layer.items():
        one = Component(heading, _bodies(steps, symbols), [t for _, t in steps], [s for s, _ in steps])
        place = [layers.get(layer, layer)] if layer else []
        alike = next((same for same in merged if layer and _alike(same, one)), None)
        if alike is None:
            one.layers = place
            merged.append(one)
        else:
            _join(alike, one, place)
    for one in merged:
        one.bodies = _settled(one.bodies, symbols)
    _name(merged)
    return merged


def _settled(bodies: Mapping[Any, Any], symbols: ModelSymbols) -> dict[Any, Any]:
    """The bodies by the number of places, tidied."""
    settled: dict[Any, Any] = {}
    for times, body in bodies.items():
        places = symbols.occurrences(times)
        settled[places] = settled.get(places, 0) + body
    return settled


def split_path(index: LayerIndex, path: str) -> tuple[str, str]:
    """A row's path as that of its layer, empty outside of layers, and the steps below it."""
    for prefix in index.prefixes:
        if path.startswith(prefix):
            number, _, rest = path.removeprefix(prefix).partition(".")
            return prefix + number, rest
    return "", path


def _heading(term: Term, step: str) -> str:
    """The heading of a term; that of cross attention says so."""
    mixer, dot, _ = step.partition(".")
    kind, _, family = mixer.rpartition("_")
    crossing = bool(dot and kind and term.heading.startswith(family))
    return f"{kind}_{term.heading}" if crossing else term.heading


def _bodies(steps: Iterable[tuple[str, Term]], symbols: ModelSymbols) -> dict[Any, Any]:
    """By the number of places, what is added once in each."""
    sums: dict[Any, Number] = {}
    for _, term in steps:
        times = required("sympy").sympify(term.times)
        sums[times] = sums.get(times, 0) + term.each * term.experts
    factored = required("sympy").factor_terms
    return {times: factored(symbols.tidied(body)) for times, body in sums.items()}


def _alike(known: Component, other: Component) -> bool:
    """Whether two layers have the same of a heading."""
    same = known.heading == other.heading and bool(known.layers)
    return same and list(known.bodies.values()) == list(other.bodies.values())


def _join(known: Component, other: Component, place: list[str]) -> None:
    """Add the layers of a component that is alike."""
    pairs = zip(known.bodies.items(), other.bodies, strict=True)
    known.bodies = {times + more: body for (times, body), more in pairs}
    known.layers += place


def _name(merged: list[Component]) -> None:
    """Give each its heading as a name; of several with one heading, also where it is."""
    for one in merged:
        kin = [other for other in merged if other.heading == one.heading]
        if len(kin) == 1:
            one.name = one.heading
        elif one.layers:
            where = f" of {'; '.join(shortened(one.layers))}" if sum(bool(o.layers) for o in kin) > 1 else ""
            one.name = f"{one.heading}{where}"
        else:
            ends = dict.fromkeys(step.rpartition(".")[2] for step in one.steps)
            one.name = next(iter(ends)) if len(ends) == 1 else f"{one.heading} outside of layers"


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
    """Numbers in order, neighbours as a range."""
    start = before = numbers[0]
    for number in [*numbers[1:], None]:
        if number is not None and number == before + 1:
            before = number
            continue
        yield str(start) if start == before else f"{start}-{before}"
        if number is not None:
            start = before = number


def total(parts: Iterable[Component]) -> Any:
    """The sum of components, grouped by how many layers have them."""
    sympy = required("sympy")
    sums: dict[Any, Any] = {}
    for part in parts:
        for times, body in part.bodies.items():
            sums[times] = sums.get(times, 0) + body
    return sympy.Add(*(times * sympy.factor_terms(body) for times, body in sums.items()))


def headings(model: Model, terms: Iterable[Term]) -> Mapping[str, Number]:
    """The sum of each heading, as components name them."""
    index = LayerIndex(model)
    sums: dict[str, Number] = {}
    for term in terms:
        layer, step = split_path(index, term.path)
        heading = _heading(term, step if layer else "")
        sums[heading] = sums.get(heading, 0) + term.total
    return sums
