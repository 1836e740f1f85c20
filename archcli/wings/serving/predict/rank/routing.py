"""Uneven routing: how many experts get a token, as engines' kernels are measured, and at the least.

Tokens prefer some experts. Loads fall as a power of the rank of an expert, by the exponent with which the
tables of `benchmarks/measured/engines/experts*.csv` were measured. At the least all tokens go to the same
experts: a limit assumes no choice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from math import fsum

from archcli.graph import Row
from archcli.graph.row import Experts
from archcli.wings.serving.launches.kernel import KernelRun
from archcli.wings.serving.predict.constants import WIDTHS
from archcli.wings.serving.predict.times import GROUPED

POWER = 1.2
"""Exponent of the loads: `power_1.2` of the tables, by ai-dynamo/aiconfigurator's collectors."""


@cache
def _chances(experts: int, top_k: float) -> tuple[float, ...]:
    """The chance of each expert to be chosen by a token; they add up to `top_k`, and none is above 1."""
    loads = [rank**-POWER for rank in range(1, experts + 1)]
    left, rest = top_k, float(sum(loads))
    for certain, load in enumerate(loads):
        if left * load < rest:
            return (1.0,) * certain + tuple(left * it / rest for it in loads[certain:])
        left, rest = left - 1, rest - load
    return (1.0,) * experts


@cache
def reached(experts: Experts, assigned: int) -> float:
    """Experts of a rank that get a token, on average, of `assigned` pairs of token and expert."""
    ranks, top_k = float(experts.ranks), float(experts.top_k)
    chances = _chances(round(ranks * float(experts.n_experts)), top_k)
    tokens = assigned * ranks / top_k
    # a token of its own reaches just top_k
    every = fsum(1 - (1 - chance) ** tokens for chance in chances)
    return max(every, min(tokens, 1.0) * top_k) / ranks


def least_reached(experts: Experts, assigned: int) -> float:
    """Experts of a rank that get a token where all tokens choose the same, averaged over ranks."""
    return min(float(assigned), float(experts.top_k) / float(experts.ranks))


def assigned_to(run: KernelRun, row: Row) -> int:
    """Pairs of token and expert of a grouped product: 2 FLOPs for each number of a matrix and each pair."""
    out, read = (int(size) for size in row.weights["weight"])
    return round(run.kernel.flops / (2 * out * read))


def unevenly(kernels: Iterable[KernelRun], rows: Mapping[str, Row | None]) -> Iterator[KernelRun]:
    """The kernels; grouped products read the experts that uneven tokens reach. `rows` are by path."""
    for run in kernels:
        row = rows.get(run.path)
        if row is None or row.experts is None or run.kernel.name != GROUPED or "weight" not in row.weights:
            yield run
            continue
        assigned, read = assigned_to(run, row), int(row.weights["weight"][1])
        # beside the matrices it reads the tokens
        weights = run.kernel.read - assigned * read * WIDTHS[run.kernel.dtype]
        expert = weights / row.experts.reached(assigned)
        less, least = (weights - expert * of(row.experts, assigned) for of in (reached, least_reached))
        kernel = run.kernel._replace(
            read=run.kernel.read - round(less), least_read=run.kernel.read - round(least)
        )
        yield run._replace(kernel=kernel)
