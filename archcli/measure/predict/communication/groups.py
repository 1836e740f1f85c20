"""Groups of ranks that run a collective together, and where a plan places them.

Neighbours in rank are neighbours on the machine: tensor parallelism lies innermost, then context parallelism,
then the replicas, and the stages of a pipeline outermost (arXiv:2104.04473 section 3.3). The ranks that share
experts are neighbours within a stage.
"""

from __future__ import annotations

from typing import NamedTuple

from archcli.measure.memory.plan import Plan


class GroupOfRanks(NamedTuple):
    """Ranks that run a collective together: how many, and how far apart two in succession lie."""

    ranks: int
    stride: int = 1

    def per_node(self, devices_per_node: int) -> int:
        """How many of them lie in one node, at least 1."""
        return min(self.ranks, max(1, devices_per_node // self.stride))


def tensor_group(plan: Plan) -> GroupOfRanks:
    """The ranks that share each matrix."""
    return GroupOfRanks(plan.tp)


def expert_group(plan: Plan) -> GroupOfRanks:
    """The ranks that share the experts."""
    return GroupOfRanks(plan.ep)


def context_group(plan: Plan) -> GroupOfRanks:
    """The ranks that share the tokens of a sequence."""
    return GroupOfRanks(plan.cp, plan.tp)


def replica_group(plan: Plan, *, routed: bool = False) -> GroupOfRanks:
    """The ranks that hold the same weights, or with `routed` the same experts."""
    if routed and plan.ep > 1:
        return GroupOfRanks(plan.expert_replicas, plan.ep)
    return GroupOfRanks(plan.replicas, plan.tp)


def stage_group(plan: Plan) -> GroupOfRanks:
    """The stages of a pipeline."""
    return GroupOfRanks(plan.pp, plan.tp * plan.replicas)


def end_group(plan: Plan) -> GroupOfRanks:
    """The first and the last stage, which both hold a tied table."""
    return GroupOfRanks(2, plan.tp * plan.replicas * (plan.pp - 1))
