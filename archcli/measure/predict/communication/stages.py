"""What the stages of a pipeline send each other, and how long they wait: the bubble."""

from __future__ import annotations

from collections.abc import Iterator

from archcli.arith import Number, part_of
from archcli.measure.memory.pipeline import Stage
from archcli.measure.memory.plan import Plan
from archcli.measure.predict.communication.collective import Collective
from archcli.measure.predict.communication.groups import stage_group


def of_stages(
    plan: Plan, stage: Stage, hidden: Number, width: Number, micro_batches: int
) -> Iterator[Collective]:
    """What a stage sends: hidden states onward and their gradients back, of each micro batch.

    `hidden` are the B T d elements at a boundary, of which a rank has 1 / cp, with sequence parallelism 1 /
    tp of that. Of v groups of layers each is followed by another stage, but for the model's last. Sending
    may go on while the next micro batch is computed.
    """
    if plan.pp == 1:
        return
    own = part_of(hidden * width, 1, plan.cp * (plan.tp if plan.sp else 1))
    onward = micro_batches * (plan.virtual_stages - int(stage.is_last))
    back = micro_batches * (plan.virtual_stages - int(stage.is_first))
    group = stage_group(plan)
    if onward:
        yield Collective("send", "stages", group, onward * own, onward, "forward", "compute")
    if back:
        yield Collective("send", "stages", group, back * own, back, "backward", "compute")


def bubble_share(plan: Plan) -> float:
    """The time in which a stage waits, as a share of that in which it computes: (p - 1) / (m v).

    arXiv:2104.04473 sections 2.2.1 and 2.2.2; p stages, m micro batches, v groups of layers in each stage.
    """
    return (plan.pp - 1) / (plan.micro_batches * plan.virtual_stages)
