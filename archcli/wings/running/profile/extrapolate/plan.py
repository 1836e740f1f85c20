"""The plan of an extrapolation: small stacks to measure, each within available memory, in pairs.

One layer and two of each kind; where two do not fit, none and one; where those do not either, two whose
experts share memory. What fits in no form is refused with figures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from archcli.arith import prod, to_bytes
from archcli.errors import ArchError
from archcli.graph import Row
from archcli.measure.passes import Pass, forward_pass
from archcli.modules import Model
from archcli.units import gib
from archcli.wings.running.profile.charges import is_expert_product
from archcli.wings.serving.predict.calibrate.cut import (
    LayerKind,
    kinds_of,
    may_be_empty,
    stand_alone,
    with_layers,
    without_ends,
)


class MemoryLimits(NamedTuple):
    """How to count a stack and the memory of its pass, and how much memory and cache there is.

    `memory` gives the bytes that the pass of a model needs. `available` bytes are None where unknown.
    """

    trace: Callable[[Model], Pass]
    memory: Callable[[Model], dict[str, int]]
    dtype: str
    available: int | None
    cache: int

    def fits(self, stack: SmallStack) -> bool:
        """Whether a stack can be run."""
        return self.available is None or stack.needed <= self.available


@dataclass(frozen=True, slots=True)
class SmallStack:
    """A model of a few layers to measure: its counted pass, and the memory that it needs.

    With `distinct` set, only so many of its `experts` have memory: expert i shares that of i - distinct.
    """

    name: str
    model: Model
    counted: Pass
    memory: dict[str, int]
    experts: int | None = None
    distinct: int | None = None

    @property
    def needed(self) -> int:
        """Bytes."""
        return self.memory["needed_bytes"]


@dataclass(frozen=True, slots=True)
class StackPair:
    """Two stacks of a kind of layer: of `n_layers`, and of one more."""

    kind: LayerKind
    fewer: SmallStack
    more: SmallStack
    n_layers: int


@dataclass(frozen=True, slots=True)
class StackPlan:
    """The stacks to measure: embedding and head with few layers, and a pair for each kind that runs.

    ends: embedding and head, with no layers, or with one where a stack cannot be empty.
    held: the paths of the kinds of those layers.
    weights_bytes: of the whole model. cache_bytes: of the processor's caches.
    reason: why the model itself is not measured; empty where the user asked for that.
    """

    ends: SmallStack
    held: frozenset[str]
    pairs: tuple[StackPair, ...]
    weights_bytes: int
    cache_bytes: int
    reason: str = ""

    def stacks(self) -> Iterator[SmallStack]:
        """Every stack once."""
        by_name = {stack.name: stack for pair in self.pairs for stack in (pair.fewer, pair.more)}
        yield from (self.ends, *by_name.values())


MOST_FILLED = 0.8
"""The share of the available memory that shared experts fill, as estimates may be too low."""
BEYOND = 4
"""The distinct matrices hold at least so many times the bytes of the caches: each is read from memory."""


def with_shared_experts(stack: SmallStack, limits: MemoryLimits) -> SmallStack | None:
    """The stack with as many distinct experts as fit into memory; None if too few would.

    Too few would stay in the caches. None in training, which needs a gradient of every expert.
    """
    rows = _expert_products(stack.counted)
    if not rows or limits.available is None or stack.counted.phase == "train":
        return None
    # what the stack needs without any expert
    rest = sharing(stack, 0, limits.dtype).needed
    per_expert = sum(_expert_bytes(row, limits.dtype) * row.times for row in rows)
    distinct = min(int((MOST_FILLED * limits.available - rest) // per_expert), _fewest_experts(rows))
    smallest = min(_expert_bytes(row, limits.dtype) for row in rows)
    if distinct < 2 or distinct * smallest < BEYOND * limits.cache:  # noqa: PLR2004
        return None
    return sharing(stack, distinct, limits.dtype)


def sharing(stack: SmallStack, distinct: int, dtype: str) -> SmallStack:
    """The stack with memory for `distinct` experts per layer."""
    rows = _expert_products(stack.counted)
    saved = sum(_expert_bytes(row, dtype) * row.times * (_n_experts(row) - distinct) for row in rows)
    less = {key: stack.memory[key] - saved for key in ("weights_bytes", "needed_bytes")}
    return replace(stack, memory=stack.memory | less, experts=_fewest_experts(rows), distinct=distinct)


def _expert_products(counted: Pass) -> list[Row]:
    return [row for row in counted.rows if is_expert_product(row)]


def _n_experts(row: Row) -> int:
    return 1 if row.experts is None else int(row.experts.n_experts)


def _fewest_experts(rows: list[Row]) -> int:
    return min(_n_experts(row) for row in rows)


def _expert_bytes(row: Row, dtype: str) -> int:
    """Bytes of one expert's matrix."""
    return int(to_bytes(prod(row.weights["weight"]), dtype))


ENDS = "embedding and head"


def plan_of(name: str, model: Model, counted: Pass, limits: MemoryLimits) -> StackPlan:
    """The stacks for a model whose pass is `counted`.

    Raises ArchError where a kind fits in no form, or reads what other layers make.
    """
    if not stand_alone(model):
        raise ArchError(
            f"layers of {name} read what other layers make, and are not measured one kind at a time",
            "profile it whole, in a smaller --dtype or with fewer n_layers",
        )
    kinds = kinds_of(model)
    fillers, empty = _fillers(model, kinds), may_be_empty(model)
    fewest = {stem: (kind.block, int(not empty)) for stem, kind in fillers.items()}
    ends = _stack(ENDS, with_layers(model, fewest), limits)
    running = [kind for kind in kinds if kind.rows(counted)]
    forms = {kind.path: _forms(model, kind, fillers, limits) for kind in running}
    pairs = [_first_fitting(forms[kind.path], limits) for kind in running]
    lacking = [] if limits.fits(ends) else [f"{ENDS} need {gib(ends.needed)}"]
    lacking += [_need(forms[kind.path]) for kind, pair in zip(running, pairs, strict=True) if pair is None]
    if lacking:
        raise ArchError(
            f"{name} in {limits.dtype} does not fit one kind of layer at a time either: "
            f"{'; '.join(lacking)}; "
            f"this machine has {gib(limits.available or 0)} available",
            "try a shorter --seq-len or a smaller --batch-size",
        )
    held = frozenset() if empty else frozenset(kind.path for kind in fillers.values() if kind in running)
    fitting = tuple(pair for pair in pairs if pair is not None)
    return StackPlan(ends, held, fitting, limits.memory(model)["weights_bytes"], limits.cache)


def _fillers(model: Model, kinds: tuple[LayerKind, ...]) -> dict[str, LayerKind]:
    """The smallest kind of layer of each stack, to fill stacks that cannot be empty."""
    counted = forward_pass(model, 1, 1)
    smallest: dict[str, LayerKind] = {}
    for kind in sorted(kinds, key=lambda kind: sum(row.params // row.times for row in kind.rows(counted))):
        smallest.setdefault(kind.stem, kind)
    return smallest


def _stack(name: str, model: Model, limits: MemoryLimits) -> SmallStack:
    counted = limits.trace(model)
    return SmallStack(name, model, counted, limits.memory(model))


def _forms(
    model: Model, kind: LayerKind, fillers: Mapping[str, LayerKind], limits: MemoryLimits
) -> list[StackPair]:
    """Stack pairs that can measure a kind, the best first; the last resort shares experts."""
    plain = without_ends(model)
    filled = {stem: (filler.block, 1) for stem, filler in fillers.items() if stem != kind.stem}

    def stack(n_layers: int) -> SmallStack:
        name = f"{n_layers} x {kind.path}" if n_layers else "no layer"
        return _stack(name, with_layers(plain, filled | {kind.stem: (kind.block, n_layers)}), limits)

    single, double = stack(1), stack(2)
    forms = [StackPair(kind, single, double, 1)]
    if may_be_empty(model):
        forms.append(StackPair(kind, stack(0), single, 0))
    shared = with_shared_experts(double, limits)
    if shared is not None:
        # both stacks share alike, as the slope is that of one more equal layer
        fewer = sharing(single, shared.distinct or 0, limits.dtype)
        forms.append(StackPair(kind, fewer, shared, 1))
    return forms


def _first_fitting(pairs: list[StackPair], limits: MemoryLimits) -> StackPair | None:
    # the larger stack decides: the smaller one fits where it does
    return next((pair for pair in pairs if limits.fits(pair.more)), None)


def _need(pairs: list[StackPair]) -> str:
    """A message on the memory that a kind needs without shared experts."""
    kind = pairs[0].kind
    unshared = [pair for pair in pairs if pair.more.distinct is None]
    needs = [f"{('one', 'two')[pair.n_layers]} {gib(pair.more.needed)}" for pair in unshared]
    return f"layers like {kind.path} ({kind.description}) need {', '.join(needs)}"
