"""The plan of an extrapolation: small stacks to measure, each within available memory.

One layer and two of each kind; where two do not fit, none and one; where those do not either, two whose
experts share memory. What fits in no form is refused with figures.
"""

from __future__ import annotations

from collections.abc import Mapping

from archcli.errors import ArchError
from archcli.measure.passes import Pass, forward_pass
from archcli.measure.profile.extrapolate.kinds import (
    LayerKind,
    kinds_of,
    may_be_empty,
    stand_alone,
    with_layers,
    without_ends,
)
from archcli.measure.profile.extrapolate.shared_experts import sharing, with_shared_experts
from archcli.measure.profile.extrapolate.stacks import MemoryLimits, SmallStack, StackPair, StackPlan
from archcli.modules import Model

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
    lacking = [] if limits.fits(ends) else [f"{ENDS} need {_gib(ends.needed)}"]
    lacking += [_need(forms[kind.path]) for kind, pair in zip(running, pairs, strict=True) if pair is None]
    if lacking:
        raise ArchError(
            f"{name} in {limits.dtype} does not fit one kind of layer at a time either: "
            f"{'; '.join(lacking)}; "
            f"this machine has {_gib(limits.available or 0)} available",
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
    beside = {stem: (filler.block, 1) for stem, filler in fillers.items() if stem != kind.stem}

    def stack(n_layers: int) -> SmallStack:
        name = f"{n_layers} x {kind.path}" if n_layers else "no layer"
        return _stack(name, with_layers(plain, beside | {kind.stem: (kind.block, n_layers)}), limits)

    single, double = stack(1), stack(2)
    forms = [StackPair(kind, single, double, 1)]
    if may_be_empty(model):
        forms.append(StackPair(kind, stack(0), single, 0))
    shared = with_shared_experts(double, limits)
    if shared is not None:
        fewer = sharing(single, shared.distinct or 0, limits.dtype)
        forms.append(StackPair(kind, fewer, shared, 1))
    return forms


def _first_fitting(pairs: list[StackPair], limits: MemoryLimits) -> StackPair | None:
    return next((pair for pair in pairs if limits.fits(pair.more)), None)


def _need(pairs: list[StackPair]) -> str:
    """A message on the memory that a kind needs without shared experts."""
    kind = pairs[0].kind
    unshared = [pair for pair in pairs if pair.more.distinct is None]
    needs = [f"{('one', 'two')[pair.n_layers]} {_gib(pair.more.needed)}" for pair in unshared]
    return f"layers like {kind.path} ({kind.description}) need {', '.join(needs)}"


def _gib(size: int) -> str:
    return f"{size / 2**30:,.1f} GiB"
