"""A layer's adapters in a shared block: low-rank products beside its projections.

B batch, T new tokens, r rank.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from archcli.arith import Number
from archcli.errors import ArchError
from archcli.graph import Op, Tape, Tensor
from archcli.modules.adapters.adapted import Adapted, on_tape
from archcli.modules.spec.base import Module
from archcli.ops import Add, Linear

Target = Literal["q", "k", "v", "o", "gate", "up", "gate_up", "down"]
FUSED = {"gate": "gate_up", "up": "gate_up"}
"""Projections of the same input that one A may serve."""
NARROW, WIDE = "adapter_A", "adapter_B"


class AdapterTape:
    """A tape around another: y = W x + B A x at each projection of `targets`, with A and B never shared.

    It lasts for one run of a module, and keeps A x for the second projection that reads it.
    """

    __slots__ = ("inner", "low", "rank", "targets")

    def __init__(self, inner: Tape, rank: Number, targets: tuple[Target, ...]) -> None:
        self.inner, self.rank, self.targets = inner, rank, targets
        self.low: dict[str, Tensor] = {}

    def emit(self, op: Op, *xs: Tensor, group: str = "", trained: bool = True) -> Any:
        """Emit the op, followed by its adapter if it is a target."""
        y = self.inner.emit(op, *xs, group=group, trained=trained)
        target = self._target(op)
        if target is not None and isinstance(op, Linear):
            high = Linear(f"{op.name}.{WIDE}", op.out)(self._narrowed(target, xs[0]))
            # from the tape of an occurrence's own weights back to the block's
            y = Add(f"{op.name}.adapter_add")(y, Tensor(self.inner, high.value))
        return on_tape(self, y)

    def weight(
        self, op: Op, *xs: Tensor, group: str = "", trained: bool = True, which: str = "weight"
    ) -> Tensor:
        """The weight of an op that has no adapter; ArchError for another."""
        if self._target(op) is not None:
            what = f"{op.name} has an adapter, and its matrix is read elsewhere too"
            raise ArchError(what, "leave it out of adapter_targets")
        weight: Tensor = on_tape(self, self.inner.weight(op, *xs, group=group, trained=trained, which=which))
        return weight

    def declaring(self) -> Tape | None:
        """A tape that declares weights, with their adapters."""
        inner = self.inner.declaring()
        return None if inner is None else AdapterTape(inner, self.rank, self.targets)

    def unshared(self) -> Tape:
        """The tape below for one occurrence's own weights, without adapters."""
        return self.inner.unshared()

    def call(self, module: Module, name: str, *args: Any, **options: Any) -> Any:
        """Call a child module with the same adapters."""
        child: Any = Adapted(module, self._around)
        return on_tape(self, self.inner.call(child, name, *on_tape(self.inner, args), **options))

    def inline(self, module: Module, group: str, *args: Any, **options: Any) -> Any:
        """Emit a module's ops with the same adapters."""
        child: Any = Adapted(module, self._around)
        return on_tape(self, self.inner.inline(child, group, *on_tape(self.inner, args), **options))

    def occurrences(
        self, n_layers: Number, period: int, *, apart: bool = False
    ) -> Iterable[tuple[int, Number]]:
        """The occurrences of the tape below."""
        return self.inner.occurrences(n_layers, period, apart=apart)

    def _around(self, tape: Tape) -> AdapterTape:
        return AdapterTape(tape, self.rank, self.targets)

    def _target(self, op: Op) -> str | None:
        """The target that a projection is, or belongs to; None for any other op."""
        if not isinstance(op, Linear) or op.borrowed:
            return None
        projection = op.name.removesuffix("_proj")
        return next((name for name in (projection, FUSED.get(projection)) if name in self.targets), None)

    def _narrowed(self, target: str, x: Tensor) -> Tensor:
        """A x, computed once for all projections of a target."""
        if target not in self.low:
            # the block's weights are stored once, its adapters for every layer that uses it
            unshared = Tensor(self.inner.unshared(), x.value)
            self.low[target] = Linear(f"{target}_proj.{NARROW}", self.rank)(unshared)
        return self.low[target]
