"""Kernels of several adapters that sequences of a batch use: one shrinks, one expands and adds.

SGMV of Punica, arXiv:2310.18547 section 4: A x for all projections of an input in one kernel, and in another
B A x, added to their outputs. The scale is a part of B.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from archcli.graph import Row
from archcli.modules.spec.trace import ADAPTERS
from archcli.wings.serving.launches.kernel import KernelRun
from archcli.wings.serving.predict.rank.fused import GROUP_OF, together
from archcli.wings.serving.predict.times import OF_ADAPTERS


def in_slots(
    kernels: Iterable[KernelRun], rows: Mapping[str, Row | None], n: int, width: int
) -> Iterator[KernelRun]:
    """The kernels of a pass whose sequences use `n` adapters; `rows` are by path.

    `width` are the bytes of an element.
    """
    joined: dict[tuple[str, ...], list[KernelRun]] = {}
    for run in kernels:
        row = rows.get(run.path)
        # rows of an adapted table are looked up as others are
        if row is None or row.group != ADAPTERS or (row.weights and not run.kernel.flops):
            yield run
        elif row.weights:
            path, _, matrix = run.path.rpartition(".lora_")
            parent, _, name = path.rpartition(".")
            reading = _reading(run, int(row.weights["weight"][0]), n, width)
            joined.setdefault((parent, GROUP_OF.get(name, (name,))[0], matrix), []).append(reading)
    for (*_, matrix), group in joined.items():
        run = together(group, rows)
        added = run.kernel.written if matrix == "B" else 0
        yield run._replace(kernel=run.kernel._replace(name=OF_ADAPTERS, read=run.kernel.read + added))


def _reading(run: KernelRun, out: int, n: int, width: int) -> KernelRun:
    """A product with a matrix of `out` rows that reads `n` such; at most one for each token."""
    kernel, products = run.kernel, run.kernel.flops // 2
    inputs = width * products // out
    matrices = min(n * (kernel.read - inputs), width * products)
    return run._replace(kernel=kernel._replace(read=inputs + matrices))
