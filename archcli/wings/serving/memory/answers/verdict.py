"""The verdict on a model and a device: fits, tight, no, or unknown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from archcli.measure.kvcache.engine import NO_ENGINE
from archcli.units import binary_bytes
from archcli.wings.serving.launches.memory.trainer import NO_TRAINER

if TYPE_CHECKING:
    from archcli.wings.serving.memory.answers.question import MemoryAnswer, MemoryQuestion
    from archcli.wings.serving.memory.parts.beside import Needed
    from archcli.wings.serving.memory.plan import DeviceMemory

Verdict = Literal["fits", "tight", "no", "unknown"]
"""Unknown is that of weights whose bytes are not known."""
HELD = ("weights", "gradients", "optimizer", "gathered")
"""Parts of a peak whose bytes follow from the parameters alone."""


def held_bytes(parts: Mapping[str, int]) -> int:
    """Bytes of a peak that no trainer has more of: weights, gradients and optimizer states."""
    return sum(int(parts[name]) for name in HELD)


def margin_bytes(question: MemoryQuestion, answer: MemoryAnswer | Needed) -> int:
    """Bytes that engines or trainers were seen to take beyond the count, at most.

    Where all weights train, a share of the count; where adapters do, a share of activations and temporaries.
    """
    settings, peak = question.settings, answer.peak_bytes
    engine = settings.engine or NO_ENGINE
    if settings.backend == "cpu":
        return 0
    if settings.phase != "train":
        return engine.margin if engine.serves else 0
    if settings.trainer is not None and settings.trainer.reserved:
        return int(settings.trainer.reserved * peak)
    if question.model.lora is None:
        return int(engine.training_margin * peak)
    parts = question.answer().largest.peak.parts
    return int(engine.adapters_margin * (peak - held_bytes(parts)))


def reserved_totals(question: MemoryQuestion, answer: MemoryAnswer) -> dict[str, dict[str, int]]:
    """What torch's allocator reserves for the streams of FSDP2, by JSON's key; empty of other trainers.

    It keeps a pool for each stream. Sums of gradients lie in that of the reduce-scatter, what an all-gather
    fills in another, and free bytes of a pool serve no other: the peaks of pools add up, whenever they are.
    """
    trainer, plan, moments = question.settings.trainer, question.plan, answer.largest.moments
    if trainer is None or not trainer.pools or plan.replicas == 1 or plan.pp > 1 or question.settings.offload:
        return {}
    most = max(moments, key=lambda moment: moment.bytes - moment.gradients)
    # outside of layers the forward has the root, and the buffer of it or of a layer
    roots = (m.gathered for m in moments if m.stage == "forward" and "layers." not in m.path)
    fetched = max((*roots, most.gathered)) - most.gathered if most.stage == "loss" else 0
    pools = {
        "compute": most.bytes - most.gradients,
        "gradients": max(moment.gradients for moment in moments),
        "gathered": fetched,
    }
    sizes = {name: int(size) for name, size in pools.items()}
    return {"reserved": {"bytes": sum(sizes.values()), **sizes}}


def reserved_note(question: MemoryQuestion, reserved: Mapping[str, int]) -> str:
    """`torch's allocator reserves about 73.7 GiB …`: the pools of FSDP2's streams."""
    size = {name: binary_bytes(n) for name, n in reserved.items()}
    trainer = question.settings.trainer or NO_TRAINER
    return (
        f"torch's allocator reserves about {size['bytes']} for {trainer.title}, a pool for each stream: "
        f"{size['compute']} to compute, {size['gradients']} of gradients, {size['gathered']} to gather."
    )


def surely_lacking(question: MemoryQuestion) -> int:
    """Bytes that are lacking beside the margin; 0 or less where it surely fits."""
    answer = question.answer()
    return answer.lacking(question.device) + margin_bytes(question, answer)


def verdict_of(question: MemoryQuestion, answer: MemoryAnswer | Needed) -> Verdict | None:
    """Whether an answer fits the question's device; tight where the margin does not; None without one."""
    device = question.device
    if device is None:
        return None
    if not answer.fits(device):
        return "no"  # the RAM of an offload counts, too
    return verdict_of_bytes(answer.device_of(device), answer.needed_bytes, margin_bytes(question, answer))


def verdict_of_bytes(device: DeviceMemory | None, needed: int, margin: int) -> Verdict | None:
    """The verdict on so many bytes and a margin beyond them; None without a device."""
    if device is None:
        return None
    if needed > device.memory_bytes:
        return "no"
    return "fits" if needed + margin <= device.memory_bytes else "tight"


def tight_note(question: MemoryQuestion, answer: MemoryAnswer) -> str:
    """What is left of the device, and what engines or trainers were seen to take of it."""
    there = 0 if question.device is None else answer.device_of(question.device).memory_bytes
    left, margin = (binary_bytes(n) for n in (there - answer.needed_bytes, margin_bytes(question, answer)))
    return (
        f"Tight: {left} of {binary_bytes(there)} are left, and {margin_in_words(question)} is up to {margin}."
    )


def margin_in_words(question: MemoryQuestion) -> str:
    """`what vLLM was seen to take beyond the count`."""
    settings = question.settings
    if settings.trainer is not None and settings.trainer.reserved:
        return "what torch's allocator was seen to reserve beyond the count"
    who = "trainers were" if settings.phase == "train" else f"{(settings.engine or NO_ENGINE).title} was"
    return f"what {who} seen to take beyond the count"
