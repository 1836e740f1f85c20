"""Held: what a device holds all through a training step, and what of it an offload hands to RAM.

optimizer: `offload_optimizer` of DeepSpeed's ZeRO 2 and 3, or of one device (ZeRO-Offload, arXiv:2101.06840).
Its states lie in RAM, gradients follow as the backward makes them, and the host steps in place.
parameters: `offload_param` of ZeRO 3. With both it is `CPUOffloadPolicy` of torch's FSDP2.
activations: what the forward keeps, once a tensor (`save_on_cpu` of torch, `activation_offloading` of TRL).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from archcli.arith import Number
from archcli.errors import ArchError, Problem
from archcli.wings.serving.memory.plan import OF_GRADIENTS, OF_WEIGHTS, Plan
from archcli.wings.serving.memory.settings import MemorySettings
from archcli.wings.serving.memory.shares import Place
from archcli.wings.serving.memory.training.optimizers import FP32, NO_STATES, OptimizerBytes, optimizer

STEPS_ON_HOST = ("adamw", "adamw-fused", "adamw-mixed", "adamw-mixed-fused", "sgd-momentum", "adafactor")
"""Optimizers with states, whose kernels are not of CUDA alone."""
DEFAULT = "adamw-mixed"


class Held(NamedTuple):
    """Bytes that a device holds throughout a step, and its share of gradients and activations.

    weights, gradients, optimizer: of its share of the model.
    gathered: bytes of weights gathered from other devices (ZeRO-3), by the place in the step.
    share: (numerator, denominator) of the gradients that stay on the device.
    in_flight: micro batches whose activations wait for their backward.
    parts: groups of layers of an interleaved schedule; activations are of one group.
    accumulates: gradients of earlier micro batches exist, or a gradient leaves for RAM once it is complete.
    splits_words: several devices share the logits of a token.
    in_ram: bytes in the RAM of the node, by purpose.
    """

    weights: Number
    gradients: Number
    optimizer: OptimizerBytes
    gathered: Mapping[Place, Number] = MappingProxyType({})
    share: tuple[Number, Number] = (1, 1)
    in_flight: int = 1
    parts: int = 1
    accumulates: bool = False
    splits_words: bool = False
    in_ram: Mapping[str, Number] = MappingProxyType({})

    def offloaded(self, settings: MemorySettings, plan: Plan, fetched: Mapping[Place, Number]) -> Held:
        """What the device holds beside an offload, and the bytes in RAM.

        fetched: of the weights in use, by the place in the step, where parameters lie in RAM.
        Raises ArchError for an offload that no program has.
        """
        check_offload(settings, plan)
        held, in_ram = self, dict[str, Number]()
        if settings.offloads("parameters"):
            in_ram["weights"] = held.weights
            held = held._replace(weights=0, gathered=fetched)
        if settings.offloads("optimizer"):
            elements, state = held.gradients // settings.gradient_width, held.optimizer
            masters = optimizer(settings.optimizer).has_masters
            # without parameters in RAM a copy of those that train waits there for the bus
            in_ram.setdefault("weights", elements * settings.trained_width)
            in_ram["gradients"] = elements * (FP32 if masters else settings.gradient_width)
            in_ram["optimizer"] = state.device + state.host
            # what ZeRO 3 gathers has the gradients of a layer, but of experts that one device alone has
            of_layers = plan.zero == OF_WEIGHTS and plan.expert_replicas > 1
            leaves = held.accumulates or not of_layers
            held = held._replace(gradients=0, optimizer=NO_STATES, share=(0, 1), accumulates=leaves)
        return held._replace(in_ram=in_ram)


def check_offload(settings: MemorySettings, plan: Plan) -> None:
    """Raise ArchError for an offload that no program has with such a plan, optimizer or tower."""
    problems = list(_conflicts(settings, plan))
    if problems:
        raise ArchError(problems)


def _conflicts(settings: MemorySettings, plan: Plan) -> Iterator[Problem]:
    several, states = plan.replicas > 1, settings.optimizer
    if settings.offloads("parameters") and (plan.pp > 1 or (several and plan.zero != OF_WEIGHTS)):
        what = "--offload parameters gathers the weights of a layer when it runs, as ZeRO 3 does"
        yield Problem(what, "--zero 3 without --pp, or --offload optimizer")
    if settings.offloads("optimizer") and several and plan.zero < OF_GRADIENTS:
        what = f"--offload optimizer on {plan.replicas:,} replicas is of ZeRO 2 or 3, which shard gradients"
        yield Problem(what, "--zero 2 or --zero 3")
    if settings.offloads("optimizer") and states not in STEPS_ON_HOST:
        lacks = "has none" if states == "sgd" else "has no step on the host that is known"
        what = f"--offload optimizer leaves an optimizer's states in RAM, and {states} {lacks}"
        yield Problem(what, f"--optimizer {DEFAULT}, or leave optimizer out of --offload")
    if settings.backend == "cpu":
        yield Problem(
            "--offload leaves a part in RAM, and --backend cpu has no other memory", "--backend cuda"
        )
    if settings.media:
        what = "--offload in training is of language models, and a tower would read an image or a sound"
        yield Problem(what, "leave --offload out, or the media")
