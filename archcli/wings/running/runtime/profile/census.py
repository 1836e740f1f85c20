"""The census: an untimed pass that counts torch's operations, and the FLOPs that each executes.

FLOPs of one call by its arguments:

- matrix products: torch's own formulas (`torch.utils.flop_counter`), or those of `BY_SHAPES`;
- softmax and norms, each one kernel: their steps in the table of `ops/base.py`;
- comparisons, copies, `where` and integer arithmetic: 0;
- all else: one FLOP per element of the largest tensor.

Views are not counted. The trace of a timed pass is compared with these counts.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from archcli.ops.dense import transform_flops
from archcli.wings.running.recording.walk import operation
from archcli.wings.running.runtime.model.op_log import OpLog, op_log
from archcli.wings.serving.recorded.classes import flops_per_element, is_fused
from archcli.wings.serving.recorded.operations import OpInstance, OpKey, Phase

OVERWRITES = {"bernoulli", "copy", "fill", "normal", "uniform", "zero"}
"""In-place operations that do not read what they overwrite."""

BY_SHAPES: Mapping[str, Callable[[Any, Any], Any]] = {
    "_grouped_mm": lambda tokens, matrices: 2 * tokens.numel() * matrices.shape[-1],
    "linalg_solve_triangular": lambda matrix, right: right.numel() * matrix.shape[-1],
    "_fft_c2c": lambda x, axes: transform_flops(x.numel(), [x.shape[axis] for axis in axes]),
}
"""FLOPs of operations without a formula in torch, by the first two arguments."""


class Executed(NamedTuple):
    """FLOPs (None for unknown fused kernels), elements read and elements written."""

    flops: int | None = 0
    read: int = 0
    written: int = 0

    def plus(self, more: Executed) -> Executed:
        """The sum of FLOPs and elements."""
        flops = None if self.flops is None or more.flops is None else self.flops + more.flops
        return Executed(flops, self.read + more.read, self.written + more.written)


def executed(func: Any, name: str, args: Any, kwargs: Any, out: Any) -> Executed:
    """The FLOPs and elements of one call of an operation, `name` without its namespace."""
    inputs = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    outputs = [leaf for leaf in tree_leaves(out) if isinstance(leaf, torch.Tensor)]
    over = {id(tensor) for tensor in outputs} if name in OVERWRITES else set()
    read = sum(_elements(tensor) for tensor in inputs if id(tensor) not in over)
    return Executed(
        _flops(func, name, args, kwargs, out, [*inputs, *outputs]), read, sum(map(_elements, outputs))
    )


def _flops(func: Any, name: str, args: Any, kwargs: Any, out: Any, tensors: list[torch.Tensor]) -> int | None:
    if name in BY_SHAPES:
        return int(BY_SHAPES[name](*args[:2]))
    if func.overloadpacket in flop_registry:
        flops: int = flop_registry[func.overloadpacket](*args, **kwargs, out_val=out)
        return flops
    if is_fused(name):
        return None
    if not any(tensor.is_floating_point() for tensor in tensors):
        return 0
    return flops_per_element(name) * max(map(_elements, tensors))


def _elements(tensor: torch.Tensor) -> int:
    """Elements in memory, fewer than in the shape of an expanded tensor."""
    return min(tensor.numel(), tensor.untyped_storage().nbytes() // tensor.element_size())


class Census(NamedTuple):
    """Calls, FLOPs and bytes of torch operations, and the architecture's operations that ran.

    calls: of each torch operation.
    ran: operations of the architecture.
    executed: FLOPs and elements of each torch operation.
    reached: experts that got a token, by the path of an operation within routed experts.
    sent: bytes that this rank sends to others, by collective.
    """

    calls: dict[OpKey, int]
    ran: tuple[OpInstance, ...]
    executed: dict[OpKey, Executed]
    reached: dict[str, int]
    sent: Mapping[OpKey, int] = MappingProxyType({})


def take_census(
    model: nn.Module, step: Callable[[], Any], counting_of: Callable[[OpLog], Counting] | None = None
) -> Census:
    """Run the step once, untimed, and count its torch operations; `counting_of` a log, or `Counting`."""
    with op_log(model) as log, (counting_of or Counting)(log) as counting:
        step()
    reached = {path: len(expert_of.unique()) for path, expert_of in log.expert_of.items()}
    ran, executed_of = tuple(log.ran.values()), dict(counting.executed)
    return Census(dict(counting.calls), ran, executed_of, reached, dict(counting.sent))


class Counting(TorchDispatchMode):
    """Counts torch operations at the dispatcher, by the operation of the architecture that called them."""

    def __init__(self, log: OpLog) -> None:
        super().__init__()
        self.log, self.calls, self.executed = log, Counter[OpKey](), defaultdict[OpKey, Executed](Executed)
        self.sent = Counter[OpKey]()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        place = None if is_view(func) else self.place_of(func, args)
        if place is not None:
            key = OpKey(*place, operation(func._schema.name))
            self.calls[key] += 1
            self.executed[key] = self.executed[key].plus(executed(func, key.name, args, kwargs, out))
        return out

    def place_of(self, func: Any, args: Any) -> tuple[str, Phase] | None:
        """The path and phase that an operation counts for; None for one that does not count."""
        return self.log.place()


def is_view(func: Any) -> bool:
    """Whether every result is a view of an argument, `_unsafe_view` among them."""
    returns = func._schema.returns
    # its schema declares no alias, although the result shares the storage
    if func._schema.name == "aten::_unsafe_view":
        return True
    return bool(returns) and all(
        # an alias that is written to is the result of an operation in place
        result.alias_info is not None and not result.alias_info.is_write
        for result in returns
    )
