"""Rows that an engine runs as one kernel each, whose inputs are read and outputs written once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from archcli.arith import prod
from archcli.graph import Row
from archcli.measure.predict.rank.kernel import RankKernel
from archcli.measure.predict.times import ATTENTION, PRODUCTS, kind_of


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
