"""The order in which a compiler runs launches: each as late as what reads it allows."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from archcli.kernels.compiled.dataflow import DataflowLaunch
from archcli.kernels.tensor import TensorMemory


def readers(launches: Sequence[DataflowLaunch]) -> dict[TensorMemory, list[int]]:
    """The numbers of the launches that read each memory."""
    by_memory: dict[TensorMemory, list[int]] = {}
    for i, launch in enumerate(launches):
        for memory in dict.fromkeys(region.memory for region in launch.reads):
            by_memory.setdefault(memory, []).append(i)
    return by_memory


def compiled_order(
    launches: Sequence[DataflowLaunch], returned: Collection[TensorMemory]
) -> list[DataflowLaunch]:
    """Launches whose results are asked for, each right before the first that reads it.

    As inductor's `reorder_for_locality`: from the last launch on, what it reads is moved before it once all
    other readers stand behind. A launch with several results, or whose result is split, stays where it is.
    """
    wanted = _wanted(launches, returned)
    makers = {region.memory: i for i in wanted for region in launches[i].writes}
    users = readers(launches)
    order, seen = list(wanted), set[int]()
    at = len(order) - 1
    while at >= 0:
        seen.add(order[at])
        for region in launches[order[at]].reads:
            maker = makers.get(region.memory)
            if maker is None or _stays(launches[maker]):
                continue
            if all(user in seen for user in users[region.memory] if user in wanted):
                before = order.index(maker)
                if before < at:
                    order.insert(at - 1, order.pop(before))
        at -= 1
    return [launches[i] for i in order]


def _stays(launch: DataflowLaunch) -> bool:
    return len(launch.writes) > 1 or any(region.memory.is_split for region in launch.writes)


def _wanted(launches: Sequence[DataflowLaunch], returned: Collection[TensorMemory]) -> dict[int, None]:
    """Numbers of the launches, in order, that lead to what the pass returns."""
    asked, leading = set(returned), list[int]()
    for i in reversed(range(len(launches))):
        launch = launches[i]
        if any(region.memory in asked for region in launch.writes):
            leading.append(i)
            asked |= {region.memory for region in launch.reads}
    return dict.fromkeys(reversed(leading))
