"""Records of a profile by the ranks of a plan: each rank's wall time, and what they exchange."""

from __future__ import annotations

from typing import Annotated

from archcli.measure.profile.schema.base import Amount, Record, Seconds
from archcli.modules.spec.values import Meaning


class RanksFigures(Record):
    """The ranks that measured a pass together; other figures are medians over them."""

    n: Annotated[Amount, Meaning("How many ranks, a process and a device each.")]
    tp: Annotated[Amount, Meaning("How many of them share each matrix.")]
    dp: Annotated[Amount, Meaning("How many replicas of the model they are.")]
    backend: Annotated[str, Meaning("What moved tensors between them: gloo, or nccl on GPUs.")]
    median: Annotated[Seconds, Meaning("Seconds: the median over ranks of wall_s.")]
    slowest: Annotated[Seconds, Meaning("Seconds: wall_s of the slowest rank.")]
    slowest_rank: Annotated[Amount, Meaning("Which one that is, from 0.")]
    walls_s: Annotated[list[Seconds], Meaning("Seconds: wall_s of every rank, in their order.")]
    matmul_flops: Annotated[Amount, Meaning("FLOPs of matrix products, counted, of all ranks together.")]
    other_flops: Annotated[
        Amount, Meaning("All other FLOPs, counted, of all ranks; what each of them has counts for each.")
    ]


class CollectiveFigures(Record):
    """A collective in a traced pass: what a rank sends by it, and how long it takes."""

    collective: Annotated[str, Meaning("all_reduce, all_gather or reduce_scatter.")]
    calls: Annotated[Amount, Meaning("Calls in a pass.")]
    bytes: Annotated[Amount, Meaning("Bytes that a rank sends in a pass, over a ring.")]
    time_s: Annotated[Seconds, Meaning("Seconds under way, waiting for other ranks included.")]
    exposed_s: Annotated[Seconds, Meaning("Seconds of these in which the rank computed nothing.")]
    slowest_s: Annotated[Seconds, Meaning("Seconds under way on the rank where that took longest.")]
    gbytes_per_s: Annotated[float | None, Meaning("1e9 bytes sent a second under way; null of none.")]
