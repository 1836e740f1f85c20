"""The plan of several devices where none is stated: tensor parallelism to infer, FSDP to train."""

from __future__ import annotations

from archcli.errors import ArchError
from archcli.measure.memory.plan import Plan
from archcli.measure.predict.answers.question import PredictQuestion
from archcli.measure.predict.search.candidates import divisors


def default_plan(question: PredictQuestion, n_devices: int) -> Plan:
    """The usual plan of so many devices.

    Training shards weights, gradients and states over all (ZeRO 3). Inference splits each matrix over as many
    devices as can, within a node, and has replicas of these where there are sequences for them.
    """
    if question.phase == "train":
        return Plan(dp=n_devices, zero=3)
    per_node = question.device.timing.fabric.devices_per_node
    for tp in reversed(divisors(n_devices)):
        replicas = n_devices // tp
        if tp > per_node or replicas > question.settings.batch_size:
            continue
        plan = Plan(tp=tp, dp=replicas)
        try:
            plan.check(question.model)
        except ArchError:
            continue
        return plan
    most = max(tp for tp in divisors(n_devices) if tp <= per_node and _splits(question, tp))
    return Plan(tp=most)


def _splits(question: PredictQuestion, tp: int) -> bool:
    try:
        Plan(tp=tp).check(question.model)
    except ArchError:
        return False
    return True
