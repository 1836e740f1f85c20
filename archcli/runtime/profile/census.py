"""The census: an untimed pass that counts the torch operations of each operation of the architecture.

The walk through a trace looks for these operations, and its counts are compared with these. Views are left
out.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from archcli.recording.operations import OpInstance, OpKey, Phase
from archcli.recording.walk import operation
from archcli.runtime.model.op_log import OpLog, op_log
from archcli.runtime.profile.executed import Executed, executed


class Census(NamedTuple):
    """Calls, FLOPs and bytes of torch operations, and the architecture's operations that ran.

    `reached`: to how many experts any token went, by the path of an operation within routed experts. `sent`:
    bytes that a rank of a plan sends to others, by the collectives among the calls.
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
    """Counts torch operations at the dispatcher, by the architecture's operation they belong to."""

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
    if func._schema.name == "aten::_unsafe_view":
        return True
    return bool(returns) and all(
        result.alias_info is not None and not result.alias_info.is_write for result in returns
    )
