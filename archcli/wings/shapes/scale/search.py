"""Search: the shapes of a family nearest to a number of parameters, the best first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import exp, log
from typing import NamedTuple

from archcli.errors import ArchError
from archcli.modules import Model
from archcli.wings.shapes.scale.fields import KV_HEADS, Depths, Role, depths_near
from archcli.wings.shapes.scale.shape import BaseShape, Shape

DEPTHS = 24
"""Distinct depths that are tried, the nearest to the ideal one."""
SIZE_WEIGHT, RATIO_WEIGHT = 4.0, 2.0
"""A size 1% off counts as much as d_model / n_layers 4% off, or another ratio 2% off."""
ODD = 0.06
"""The cost of a factor of two less in d_model, heads or layers than the base has."""
TWOS = {"d_model": 8, "heads": 3, "layers": 2, "group": 2}
"""Factors of two worth having: widths of 256, heads that 8 devices share, layers that 4 stages share, 4 heads
of queries for each KV head that is kept.
"""
GROWN, GROWTH = 6.7e9, 0.174
"""GPT-3's table 2.1 (Brown et al. 2020, arXiv:2005.14165): d_model / n_layers is 64 with 125M parameters and
128 with 6.7B, and stays there up to 175B: it grows with parameters to the power of log 2 / log(6.7B / 125M).
"""
KINDS = {Role.HEADS: "heads", Role.KV_HEADS: "heads", Role.DEPTH: "layers"}
STRETCH = 0.12
"""How far d_ff may be from the base's ratio to meet a size, as a share."""
NEAR = 0.25
"""Logarithm of a size beyond which even the smallest shape is too large."""
MOST_HALVINGS = 40
"""Halvings or doublings of depth within which a size must lie."""


class RankedShape(NamedTuple):
    """A shape and its `cost`: less is better."""

    shape: Shape
    cost: float


def aspect_growth(before: float, after: float) -> float:
    """How much wider for its depth a model of `after` parameters is than one of `before`, as in GPT-3."""
    grown: float = (min(after, GROWN) / min(before, GROWN)) ** GROWTH
    return grown


def ranked(base: BaseShape, params: int) -> list[RankedShape]:
    """All tried shapes, the best first. Raises ArchError for a size that no shape reaches."""
    growth = aspect_growth(*_dense(base, params))
    _require_reachable(base, params)
    ratio = _ideal_depth(base, params, growth)
    depths = depths_near(base.groups, ratio, DEPTHS, kept=base.keeps_depth)
    tried = [shape for of_depth in depths for shape in _of_depth(base, of_depth, params, ratio, growth)]
    # a stretched d_ff may round to the width that it had
    distinct = {tuple(shape.values.values()): shape for shape in tried}
    costs = [RankedShape(shape, cost(base, shape, params, growth)) for shape in distinct.values()]
    return sorted(costs, key=lambda entry: (entry.cost, entry.shape.params))


def _dense(base: BaseShape, params: int) -> tuple[float, float]:
    """Active parameters of the base and about those of the result."""
    total, active = base.counts
    return active, params * active / total


def cost(base: BaseShape, shape: Shape, params: int, growth: float) -> float:
    """Distance from the asked size, from the family's ratios, and from sizes that divide well."""
    size = abs(log(shape.params / params))
    # relative to the base, so that a family that is deep for its width stays so
    aspect = abs(log(shape.d_model / base.model.d_model / shape.ratio / growth))
    return SIZE_WEIGHT * size + aspect + RATIO_WEIGHT * shape.distortion + ODD * _oddness(base, shape)


def _oddness(base: BaseShape, shape: Shape) -> int:
    """Factors of two that d_model, heads and layers lose against the base, up to those of TWOS."""
    lost: dict[tuple[str | int, ...], tuple[int, int, int]] = {
        ("d_model", base.model.d_model): (base.model.d_model, shape.d_model, TWOS["d_model"])
    }
    for size in base.sizes:
        if size.role in KINDS:
            lost[size.name, size.value] = (size.value, shape.values[size.path], TWOS[KINDS[size.role]])
    lost |= {("group", *pair): (*pair, TWOS["group"]) for pair in _groups(base, shape)}
    return sum(max(min(_twos(before), most) - _twos(now), 0) for before, now, most in lost.values())


def _groups(base: BaseShape, shape: Shape) -> Iterator[tuple[int, int]]:
    """Heads of queries for each KV head that is kept, of base and shape."""
    before = {size.path: size.value for size in base.sizes}
    for size in base.sizes:
        heads = f"{size.path.rpartition('.')[0]}.{KV_HEADS.get(size.name, '')}"
        if size.role is Role.KEPT and size.value > 1 and heads in shape.values:
            yield before[heads] // size.value, shape.values[heads] // size.value


def _twos(n: int) -> int:
    """The number of factors of two."""
    # n & -n is the largest power of two that divides n
    return (n & -n).bit_length() - 1


def _at(base: BaseShape, ratio: float, growth: float) -> Shape:
    """The shape of about `ratio` times the depth, as wide as the base's aspect times `growth`."""
    depths = depths_near(base.groups, ratio, 1, kept=base.keeps_depth)[0]
    return base.shape(_width(base, base.model.d_model * ratio * growth), depths)


def _width(base: BaseShape, ideal: float) -> int:
    if base.keeps_width:
        return base.model.d_model
    unit = base.unit(ideal, shared=False)
    return max(unit, round(ideal / unit) * unit)


def _require_reachable(base: BaseShape, params: int) -> None:
    """Raise ArchError where even the narrowest of the shallowest shapes is larger."""
    least = _at(base, 2.0**-MOST_HALVINGS, 1.0)
    if least.params > params * exp(NEAR):
        rows = f"its vocabulary of {base.model.vocab_size:,} words is kept"
        what = f"{params:,} parameters are fewer than the smallest shape has: {least.params:,}"
        raise ArchError(what, f"{rows}; ask for more, or --set vocab_size")


def _ideal_depth(base: BaseShape, params: int, growth: float) -> float:
    """The ratio of depth at which a shape of the family's aspect has these parameters."""
    low, high = -1.0, 1.0
    while _at(base, 2.0**low, growth).params > params and low > -MOST_HALVINGS:
        low *= 2
    while _at(base, 2.0**high, growth).params < params:
        high *= 2
        if high > MOST_HALVINGS:
            raise ArchError(f"no shape has {params:,} parameters", "its width and depth are kept")
    # 2^12 parts of the interval are finer than whole layers
    for _ in range(12):
        middle = (low + high) / 2
        if _at(base, 2.0**middle, growth).params < params:
            low = middle
        else:
            high = middle
    ratio: float = 2.0 ** ((low + high) / 2)
    return ratio


def _of_depth(base: BaseShape, depths: Depths, params: int, ratio: float, growth: float) -> Iterator[Shape]:
    """The shapes of this depth next below and above the size, also with d_ff stretched to meet it."""
    layers = sum(depths.values()) / base.n_layers
    # parameters go with layers times d_model^2: with fewer layers the width grows by the square root
    ideal = base.model.d_model * growth * ratio * (ratio / layers) ** 0.5
    shapes = [base.shape(width, depths) for width in _widths_around(base, depths, params, ideal)]
    yield from shapes
    middle = min(shapes, key=lambda shape: abs(log(shape.params / params)))
    per_square = (base.shape(middle.d_model, depths, 1 + STRETCH).params - middle.params) / middle.d_model**2
    for shape in shapes:
        gain = per_square * shape.d_model**2  # parameters of a d_ff so much wider: they grow with its product
        stretch = STRETCH * (params - shape.params) / gain if gain > 0 else 0.0
        if 0 < abs(stretch) <= STRETCH:
            yield base.shape(shape.d_model, depths, 1 + stretch)


def _widths_around(base: BaseShape, depths: Depths, params: int, ideal: float) -> list[int]:
    """The two widths whose shapes enclose the size, and the next one on either side.

    Widths are multiples of a unit; they are found by bisection, as parameters grow with the width.
    """
    if base.keeps_width:
        return [base.model.d_model]
    unit = base.unit(ideal)

    def is_below(n: int) -> bool:
        return base.shape(n * unit, depths).params < params

    low = high = max(round(ideal / unit), 1)
    step = 1
    while is_below(high):
        low, high, step = high, high + step, 2 * step
    while low > 0 and not is_below(low):
        low, high, step = max(low - step, 0), low, 2 * step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if is_below(middle) else (low, middle)
    return [n * unit for n in range(max(low - 1, 1), high + 2)]


TRIES = 40
"""Shapes that are held against the rules, the best first."""
ALTERNATIVES = 3
FAR, CLOSE = 0.05, 0.02
"""Shares of the size: a shape within the first comes before any beyond it, even one that breaks a rule; of
shapes that break none, those within the second come first.
"""
Order = tuple[bool, int, bool, float]
INFO, NOTE = "info", 0.1
"""The severity of findings that are no failure, and what each counts: as much as a ratio 10% off."""


class JudgedModel(NamedTuple):
    """A model as it is read back from its YAML, and the rules it breaks: severities by code."""

    model: Model
    broken: Mapping[str, str]


Judge = Callable[[Model, int], JudgedModel | None]
"""Reads a model of so many parameters back from its YAML, and checks it; None where values conflict."""


class ChosenShape(NamedTuple):
    """A shape, the model that its YAML gives, its cost, and rules broken that the base keeps."""

    shape: Shape
    model: Model
    cost: float
    broken: Mapping[str, str]

    def order(self, params: int) -> Order:
        """Better is less: near the size, without failures, close to it, then by cost and information."""
        notes = sum(severity == INFO for severity in self.broken.values())
        off = abs(self.shape.params / params - 1)
        return off > FAR, len(self.broken) - notes, off > CLOSE, self.cost + NOTE * notes


def chosen(base: BaseShape, params: int, judge: Judge) -> list[ChosenShape]:
    """The best shape and its alternatives, each of another width or depth.

    Raises ArchError where no shape has about that size, or all contradict themselves.
    """
    kept = judge(base.model, base.counts[0])
    # a rule that the base breaks says nothing of how it was scaled
    spared = {} if kept is None else kept.broken
    candidates: list[ChosenShape] = []
    for entry in _distinct(ranked(base, params)):
        judged = judge(entry.shape.model, entry.shape.params)
        if judged is not None:
            broken = {code: what for code, what in judged.broken.items() if code not in spared}
            candidates.append(ChosenShape(entry.shape, judged.model, entry.cost, broken))
        if _is_settled(candidates, entry.cost, params):
            break
    if not candidates:
        what = f"no shape of this model near {params:,} parameters has values that fit together"
        raise ArchError(what, "scale another preset of its series, or less far")
    in_order = sorted(candidates, key=lambda candidate: candidate.order(params))
    near = [candidate for candidate in in_order if abs(candidate.shape.params / params - 1) <= FAR]
    return _of_several_widths(near or in_order)


def _is_settled(candidates: list[ChosenShape], cost: float, params: int) -> bool:
    """Whether no shape of this cost or more can still be among the first few."""
    orders = sorted(candidate.order(params) for candidate in candidates)
    widths = {candidate.shape.d_model for candidate in candidates}
    last = orders[ALTERNATIVES] if len(widths) > ALTERNATIVES else (True, 0, True, 0.0)
    # the right side is the best order that a shape of this cost can have
    return last < (False, 0, False, cost)


def _of_several_widths(candidates: list[ChosenShape]) -> list[ChosenShape]:
    """The first, and as alternatives the first of other widths before others of the same."""
    widths: dict[int, ChosenShape] = {}
    for candidate in candidates:
        widths.setdefault(candidate.shape.d_model, candidate)
    first = list(widths.values())[: ALTERNATIVES + 1]
    rest = [candidate for candidate in candidates if candidate not in first]
    return [*first, *rest][: ALTERNATIVES + 1]


def _distinct(shapes: list[RankedShape]) -> Iterator[RankedShape]:
    """The best shape of each width and depth, at most TRIES of them."""
    best: dict[tuple[int, int], RankedShape] = {}
    for entry in shapes:
        best.setdefault((entry.shape.d_model, entry.shape.n_layers), entry)
    yield from list(best.values())[:TRIES]
