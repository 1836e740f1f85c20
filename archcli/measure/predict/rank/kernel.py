"""RankKernel: a kernel that a rank of a plan runs; rows that engines join, or a backward repeats."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from archcli.arith import prod
from archcli.graph import Row
from archcli.graph.kept import Call, Execution, In, Kept
from archcli.launches.kernel import KernelCost
from archcli.launches.memory.op_reader import OpReader
from archcli.measure.predict.times import ATTENTION, PRODUCTS, kind_of
from archcli.recording.classes import TimeClass

SCORES = "attention_scores"
"""The component of the operations that read queries, keys and values in turn."""


class RankKernel(NamedTuple):
    """A kernel that a rank runs: its row, its class in a profile, and how often in a micro batch.

    `stage` is forward, recomputed, backward, sums, loss or update.
    """

    path: str
    stage: str
    kernel: KernelCost
    op_class: TimeClass
    times: float

    def scaled(self, times: float) -> RankKernel:
        """So many of it."""
        return self._replace(times=times * self.times)


def joined_rows(
    kernels: Iterable[RankKernel], rows: Mapping[str, Row | None], width: int
) -> Iterator[RankKernel]:
    """The kernels, those of a row of several that are neither products nor attention as one.

    `rows` are by the path of the kernels. The one reads the row's inputs, writes its outputs and has the name
    of the last, as many times as the row runs. Attention in one kernel makes its mask itself.
    """
    by_row: dict[tuple[str, str], list[RankKernel]] = {}
    for one in kernels:
        by_row.setdefault((one.path, one.stage), []).append(one)
    for (path, _), of_row in by_row.items():
        row = rows.get(path)
        attention = [one for one in of_row if _kind(one) == ATTENTION]
        if attention:
            yield from attention
        elif row is None or len(of_row) == 1 or any(_kind(one) == PRODUCTS for one in of_row):
            yield from of_row
        else:
            yield _joined(of_row, row, width)


def _kind(one: RankKernel) -> str:
    return kind_of(one.op_class, one.kernel.name)


def _joined(of_row: list[RankKernel], row: Row, width: int) -> RankKernel:
    last = of_row[-1]
    read, written = (
        width * sum(int(prod(shape)) for shape in shapes) for shapes in (row.inputs, row.outputs)
    )
    flops = sum(one.kernel.flops for one in of_row)
    kernel = last.kernel._replace(read=read, written=written, flops=flops)
    return last._replace(kernel=kernel, times=min(one.times for one in of_row))


def repeated_paths(
    rows: Sequence[Row], rule: Callable[[str], bool] | None, execution: Execution
) -> frozenset[str]:
    """Paths of the rows that a backward runs again, by what is recomputed.

    As in torch's checkpointing what comes behind the last operation that keeps something is not run again,
    nor is that one itself where it keeps its inputs alone: autograd saves them before it runs.
    """
    if rule is None:
        return frozenset()
    regions: dict[str, list[Row]] = {}
    for row in rows:
        region = _region(row.path, rule)
        if region is not None:
            regions.setdefault(region, []).append(row)
    return frozenset(row.path for region in regions.values() for row in _needed(region, execution))


def _region(path: str, rule: Callable[[str], bool]) -> str | None:
    """The outermost module, or the operation itself, that is recomputed and has this path."""
    steps = path.split(".")
    above = (".".join(steps[:n]) for n in range(1, len(steps) + 1))
    return next((module for module in above if rule(module)), None)


def _needed(rows: list[Row], execution: Execution) -> list[Row]:
    """Rows up to the last that keeps something, and that one unless it keeps its inputs alone."""
    kept = [_kept(row, execution) for row in rows]
    keeping = [number for number, of_row in enumerate(kept) if of_row is not None]
    if not keeping:
        return []
    last = keeping[-1]
    inputs_alone = all(isinstance(one, In) for one in kept[last] or ())
    return rows[: last + (0 if inputs_alone else 1)]


def _kept(row: Row, execution: Execution) -> tuple[Kept, ...] | None:
    """What a row's backward keeps of a call through which gradients flow; None of one that needs nothing."""
    n = len(row.inputs)
    experts = row.experts.n_experts if row.experts else None
    execution = execution._replace(assumes=True)
    call = Call(execution, (True,) * n, (execution.width,) * n, row.trained, experts)
    kept = OpReader()(row.op, call, row.inputs).kept
    # a view keeps nothing, and what made the tensor that it shows runs again
    shows = row.op.is_view and not row.op.exchanges
    return kept if kept or shows else None
