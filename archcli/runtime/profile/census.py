"""The census: one untimed pass that says which torch operations each operation of the architecture executes, and how often.

It is the vocabulary of the walk, and what its counts are held against. Views are left out: no element moves in them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from archcli.recording.operations import OpInstance, OpKey, Phase
from archcli.recording.walk import operation
from archcli.runtime.model.op_hooks import Regions, census, labelled
from archcli.runtime.profile.executed import Executed, executed


class Census(NamedTuple):
    """Calls of each torch operation, what they computed and moved, and the operations of the architecture that ran.

    `reached` is, of each operation within routed experts, how many of them any token went to.
    """

    calls: dict[OpKey, int]
    ran: tuple[OpInstance, ...]
    did: dict[OpKey, Executed]
    reached: dict[str, int]


def take_census(model: nn.Module, step: Callable[[], Any]) -> Census:
    """Run the step once, untimed, and count."""
    with labelled(model, census) as regions, _Counting(regions) as counting:
        step()
    reached = {path: len(expert_of.unique()) for path, expert_of in regions.expert_of.items()}
    return Census(dict(counting.calls), tuple(regions.ran.values()), dict(counting.did), reached)


class _Counting(TorchDispatchMode):
    """Counts what reaches the dispatcher, under the labelled operation it runs in or whose gradient it computes."""

    def __init__(self, regions: Regions) -> None:
        super().__init__()
        self.regions, self.calls, self.did = regions, Counter[OpKey](), defaultdict[OpKey, Executed](Executed)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if not is_view(func):
            key = OpKey(*self._place(), operation(func._schema.name))
            self.calls[key] += 1
            self.did[key] = self.did[key].plus(executed(func, key.name, args, kwargs or {}, out))
        return out

    def _place(self) -> tuple[str, Phase]:
        node = torch._C._current_autograd_node()
        return (
            (self.regions.current, "forward")
            if node is None
            else (self.regions.owner(node._sequence_nr()), "backward")
        )


def is_view(func: Any) -> bool:
    """Whether every result is another look at an argument; `_unsafe_view` is one that does not say so."""
    returns = func._schema.returns
    if func._schema.name == "aten::_unsafe_view":
        return True
    return bool(returns) and all(
        result.alias_info is not None and not result.alias_info.is_write for result in returns
    )
