"""Which stacks are measured of a model that does not fit, each within the memory there is; what cannot be is refused with figures.

One layer and two of each kind; where two do not fit, none and one; where those do not either, two whose experts share memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from archcli.arith import prod, to_bytes
from archcli.errors import ArchError
from archcli.graph import Row
from archcli.measure.passes import Pass, forward_pass
from archcli.measure.profile.extrapolate.kinds import Kind, kinds_of, may_be_empty, with_layers, without_ends
from archcli.modules import Model
from archcli.ops import Linear

ENDS = "embedding and head"
PART = 0.8
"""Of the memory that is available, the part that shared experts fill: the rest of what is needed is an estimate."""
BEYOND = 4
"""How many times the caches the distinct matrices of shared experts hold at least, so that each is read from memory anew."""


class Sizing(NamedTuple):
    """How passes are counted and what they need, and how much memory and cache there is; None means that nobody knows."""

    trace: Callable[[Model], Pass]
    memory: Callable[[Pass], dict[str, int]]
    dtype: str
    available: int | None
    cache: int

    def fits(self, stack: Small) -> bool:
        """Whether a stack can be run."""
        return self.available is None or stack.needed <= self.available


@dataclass(frozen=True, slots=True)
class Small:
    """A stack to be measured: the model it is, its pass, the memory that needs.

    `distinct` of its `experts` have memory of their own where not all do; the others share it, each with the one so many before it.
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
class Pair:
    """Two stacks of a kind that differ by one layer: `n_layers` and one more."""

    kind: Kind
    fewer: Small
    more: Small
    n_layers: int


@dataclass(frozen=True, slots=True)
class Plan:
    """What is measured: the model with next to no layers, and two stacks of each kind that runs.

    `held` are the paths of the kinds of which `ends` has one layer each, where it cannot do without. `reason` says why
    the model itself is not measured, where nobody asked for that.
    """

    ends: Small
    held: frozenset[str]
    pairs: tuple[Pair, ...]
    reason: str = ""

    def stacks(self) -> Iterator[Small]:
        """Every stack, once."""
        named = {small.name: small for pair in self.pairs for small in (pair.fewer, pair.more)}
        yield from (self.ends, *named.values())


def plan_of(name: str, model: Model, counted: Pass, sizing: Sizing) -> Plan:
    """The stacks for a model of that name whose pass is `counted`. Raises ArchError where one does not fit in any form."""
    kinds = kinds_of(model)
    fillers = _fillers(model, kinds)
    empty = may_be_empty(model)
    ends = _small(
        ENDS,
        with_layers(model, {stem: (kind.block, int(not empty)) for stem, kind in fillers.items()}),
        sizing,
    )
    running = [kind for kind in kinds if kind.rows(counted)]
    tried = {kind.path: _pairs(model, kind, fillers, sizing) for kind in running}
    pairs = [_fitting(tried[kind.path], sizing) for kind in running]
    lacking = [] if sizing.fits(ends) else [f"{ENDS} need {_gib(ends.needed)}"]
    lacking += [_need(tried[kind.path]) for kind, pair in zip(running, pairs, strict=True) if pair is None]
    if lacking:
        what = (
            f"{name} in {sizing.dtype} does not fit one kind of layer at a time either: {'; '.join(lacking)}"
        )
        raise ArchError(
            f"{what}; this machine has {_gib(sizing.available or 0)} available",
            "try a shorter --seq-len or a smaller --batch-size",
        )
    held = frozenset() if empty else frozenset(kind.path for kind in fillers.values() if kind in running)
    return Plan(ends, held, tuple(pair for pair in pairs if pair is not None))


def _fillers(model: Model, kinds: tuple[Kind, ...]) -> dict[str, Kind]:
    """The smallest kind of each stack, of which there is a layer where a stack cannot be empty."""
    counted = forward_pass(model, 1, 1)
    sizes = {kind.path: sum(row.params // row.times for row in kind.rows(counted)) for kind in kinds}
    return {
        stem: min((kind for kind in kinds if kind.stem == stem), key=lambda kind: sizes[kind.path])
        for stem in {k.stem for k in kinds}
    }


def _small(name: str, model: Model, sizing: Sizing) -> Small:
    counted = sizing.trace(model)
    return Small(name, model, counted, sizing.memory(counted))


def _pairs(model: Model, kind: Kind, fillers: Mapping[str, Kind], sizing: Sizing) -> list[Pair]:
    """Every form in which the kind can be measured, the best first; what needs sharing comes last and is there where it may help."""
    plain = without_ends(model)
    beside = {stem: (filler.block, 1) for stem, filler in fillers.items() if stem != kind.stem}

    def stack(n_layers: int) -> Small:
        told = f"{n_layers} x {kind.path}" if n_layers else "no layer"
        return _small(told, with_layers(plain, beside | {kind.stem: (kind.block, n_layers)}), sizing)

    one, two = stack(1), stack(2)
    found = [Pair(kind, one, two, 1)]
    if may_be_empty(model):
        found.append(Pair(kind, stack(0), one, 0))
    shared = _shared(two, sizing)
    if shared is not None:
        fewer = _sharing(one, shared.distinct or 0, sizing.dtype)
        found.append(Pair(kind, fewer, shared, 1))
    return found


def _fitting(pairs: list[Pair], sizing: Sizing) -> Pair | None:
    return next((pair for pair in pairs if sizing.fits(pair.more)), None)


def _shared(stack: Small, sizing: Sizing) -> Small | None:
    """The stack with as many distinct experts as there is room for, if those are many enough; training needs a gradient of each."""
    rows = _matrices(stack.counted)
    if not rows or sizing.available is None or stack.counted.phase == "train":
        return None
    others = _sharing(stack, 0, sizing.dtype).needed
    each = sum(_bytes(row, sizing.dtype) * row.times for row in rows)
    distinct = min(int((PART * sizing.available - others) // each), _experts(rows))
    if distinct < 2 or distinct * min(_bytes(row, sizing.dtype) for row in rows) < BEYOND * sizing.cache:  # noqa: PLR2004
        return None
    return _sharing(stack, distinct, sizing.dtype)


def _sharing(stack: Small, distinct: int, dtype: str) -> Small:
    """The stack with memory for so many experts of each layer."""
    rows = _matrices(stack.counted)
    saved = sum(
        _bytes(row, dtype) * row.times * (row.experts.n_experts - distinct)
        for row in rows
        if row.experts is not None
    )
    memory = {
        name: size - saved if name in {"weights_bytes", "needed_bytes"} else size
        for name, size in stack.memory.items()
    }
    return replace(stack, memory=memory, experts=_experts(rows), distinct=distinct)


def _matrices(counted: Pass) -> list[Row]:
    """The rows whose weights are those of many experts."""
    return [row for row in counted.rows if row.experts is not None and isinstance(row.op, Linear)]


def _experts(rows: list[Row]) -> int:
    return min(int(row.experts.n_experts) for row in rows if row.experts is not None)


def _bytes(row: Row, dtype: str) -> int:
    """What one expert's matrix takes."""
    return int(to_bytes(prod(row.weights["weight"]), dtype))


def _need(pairs: list[Pair]) -> str:
    """What a kind needs in the forms that share nothing."""
    kind = pairs[0].kind
    needs = [
        f"{('one', 'two')[pair.n_layers]} {_gib(pair.more.needed)}"
        for pair in pairs
        if pair.more.distinct is None
    ]
    return f"layers like {kind.path} ({kind.what}) need {', '.join(needs)}"


def _gib(size: int) -> str:
    return f"{size / 2**30:,.1f} GiB"
