"""The census: an untimed pass that counts the torch operations of each operation of the architecture.

The walk through a trace looks for these operations, and its counts are compared with these. Views are left
out.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any, NamedTuple

from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from archcli.recording.operations import OpInstance, OpKey
from archcli.recording.walk import operation
from archcli.runtime.model.op_log import OpLog, op_log
from archcli.runtime.profile.executed import Executed, executed


class Census(NamedTuple):
    """Calls, FLOPs and bytes of torch operations, and the architecture's operations that ran.

    `reached`: to how many experts any token went, by the path of an operation within routed experts.
    """

    calls: dict[OpKey, int]
    ran: tuple[OpInstance, ...]
    executed: dict[OpKey, Executed]
    reached: dict[str, int]


def take_census(model: nn.Module, step: Callable[[], Any]) -> Census:
    """Run the step once, untimed, and count its torch operations."""
    with op_log(model) as log, _Counting(log) as counting:
        step()
    reached = {path: len(expert_of.unique()) for path, expert_of in log.expert_of.items()}
    return Census(dict(counting.calls), tuple(log.ran.values()), dict(counting.executed), reached)


class _Counting(TorchDispatchMode):
    """Counts torch operations at the dispatcher, by the architecture's operation they belong to."""

    def __init__(self, log: OpLog) -> None:
        super().__init__()
        self.log, self.calls, self.executed = log, Counter[OpKey](), defaultdict[OpKey, Executed](Executed)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if not is_view(func):
            key = OpKey(*self.log.place(), operation(func._schema.name))
            self.calls[key] += 1
            self.executed[key] = self.executed[key].plus(executed(func, key.name, args, kwargs or {}, out))
        return out


def is_view(func: Any) -> bool:
    """Whether every result is a view of an argument, `_unsafe_view` among them."""
    returns = func._schema.returns
    if func._schema.name == "aten::_unsafe_view":
        return True
    return bool(returns) and all(
        result.alias_info is not None and not result.alias_info.is_write for result in returns
    )
