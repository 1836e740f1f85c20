"""--offload: the fewest layers or experts in RAM so that the rest fits; its checks and notes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from archcli.errors import ArchError
from archcli.modules import Model
from archcli.modules.models.layers import layer_count
from archcli.modules.spec.base import Spec, find
from archcli.units import binary_bytes
from archcli.wings.serving.memory.answers.fit import narrowed
from archcli.wings.serving.memory.answers.question import MemoryQuestion
from archcli.wings.serving.memory.inference import weight_rows
from archcli.wings.serving.memory.offload import GIB, HostMemory, Offload
from archcli.wings.serving.memory.plan import Plan
from archcli.wings.serving.memory.settings import MemorySettings
from archcli.wings.serving.memory.traced import TracedModel


def has_experts(model: Model) -> bool:
    """Whether a model has routed experts."""
    return any(row.experts is not None for row in weight_rows(model, TracedModel(model)))


def of_model(model: Model) -> str:
    """The kind of a model by which engines are measured: dense, mixture, or latent with latent attention."""
    if not has_experts(model):
        return "dense"
    # rows of a pass without a cache do not tell what a cache would hold
    return "latent" if any(hasattr(part, "kv_lora_rank") for _, part in find(model, Spec)) else "mixture"


def check_offload(model: Model, offload: Offload) -> None:
    """Raise ArchError for too many layers, for experts of a dense model, and for layers that share states."""
    n_layers = layer_count(model)
    for name, number in (("layers", offload.layers), ("experts", offload.expert_layers)):
        if number > n_layers:
            what = f"--offload {name}:{number} is more than the {n_layers} layers of {model.name}"
            raise ArchError(what, f"{name}:{n_layers} at most")
    if offload.expert_layers and not has_experts(model):
        raise ArchError(f"{model.name} has no routed experts to leave in RAM", "--offload layers:N, or auto")
    if offload.layers and not Plan(pp=2).suits(model):
        (problem, *_) = _against_cutting(model)
        more = "--offload experts, or leave it out" if has_experts(model) else "leave --offload out"
        raise ArchError(f"layers of {model.name} cannot lie apart: {problem}", more)


def _against_cutting(model: Model) -> list[str]:
    """Why the model cannot be cut between layers: the conflicts of a pipeline of two stages."""
    try:
        Plan(pp=2).check(model)
    except ArchError as error:
        return [problem.what for problem in error.problems]
    return []


def check_ram(question: MemoryQuestion) -> None:
    """Raise ArchError if RAM is too small for the offloaded part."""
    answer = question.answer()
    if answer.ram_bytes > answer.ram_limit:
        needed, there = (binary_bytes(size) for size in (answer.ram_bytes, answer.ram_limit))
        what = f"what --offload leaves in RAM takes {needed}, and --ram is {there}"
        more = f"--ram {-(-answer.ram_bytes // GIB)}GiB"
        raise ArchError(what, f"{more}, less of the model in RAM, or fewer bits (--dtype)")


def offload_notes(question: MemoryQuestion, record: Mapping[str, Any]) -> Iterator[str]:
    """Notes: the offloaded part, and llama.cpp's options for it; in training what is counted."""
    if question.settings.phase == "train":
        from archcli.wings.serving.memory.answers.ram import ram_notes  # of training alone

        yield from ram_notes(record)
        return
    layers, experts = record["layers"], record["expert_layers"] if record["experts"] else 0
    parts = [f"the first {layers:,} layers with their cache"] * (layers > 0)
    if experts:
        which = "all" if experts >= layer_count(question.model) else f"the first {experts:,}"
        parts.append(f"routed experts of {which} layers")
    sizes = (binary_bytes(record[name]) for name in ("ram_bytes", "ram_limit_bytes"))
    what = " and ".join([*parts, "tables"]) if parts else "tables alone"
    yield f"In RAM: {what}, {' of '.join(sizes)}; llama.cpp's {record['options']}."


def rate_notes(settings: MemorySettings) -> Iterator[str]:
    """Notes: the rates of RAM and bus in a prediction, and its certainty."""
    host = (settings.offload or Offload()).host
    rates = (f"{rate / 1e9:g} GB/s" for rate in (host.bandwidth, host.bus))
    yield "{} of RAM and {} of the bus are --ram-bandwidth and --bus-bandwidth.".format(*rates)
    if settings.phase == "train":
        yield (
            "Copies run beside the computing, and the step of the host after it, at the rates on paper: "
            "neither was measured."
        )
        return
    yield (
        "In RAM the CPU computes, with constants of processors, a rule of thumb; a pass of 32 tokens or more "
        "copies matrices over the bus instead, and the device computes."
    )


def fewest(question: MemoryQuestion, host: HostMemory) -> Offload:
    """The smallest offload with which the rest fits: experts of the fewest layers, or the fewest layers.

    If experts of all layers are not enough, whole layers follow. Raises ArchError without a device, and if
    nothing is enough.
    """
    device, model, offload = question.device, question.model, Offload(host=host)
    if device is None:
        raise ArchError("--offload auto needs a device to fit into", "--device rtx-4090, or --memory 24GiB")
    memory_bytes, n_layers = device.memory_bytes, layer_count(model)

    def lacking(tried: Offload) -> int:
        ranks = replace(question, settings=replace(question.settings, offload=tried)).ranks()
        # the question itself leaves nothing in RAM: what lies there is traced of the answer alone
        return question.answer_with(ranks).needed_bytes - memory_bytes

    if lacking(offload) <= 0:
        return offload
    if has_experts(model):
        number = _least(lambda n: lacking(replace(offload, expert_layers=n)), n_layers)
        offload = replace(offload, expert_layers=number or n_layers)
        if number is not None:
            return offload
    check_offload(model, replace(offload, layers=1))
    number = _least(lambda n: lacking(replace(offload, layers=n)), n_layers)
    if number is None:
        what = f"{model.name} does not fit into {device.name}, not with all layers in RAM either"
        raise ArchError(what, "a shorter context, fewer sequences, or fewer bits (--dtype)")
    return replace(offload, layers=number)


def _least(lacking: Callable[[int], int], most: int) -> int | None:
    """The least number above 0 with which nothing is lacking; None if no number is enough.

    Bytes on the device fall with the number in nearly straight lines, as most layers are equal.
    """
    if lacking(most) > 0:
        return None
    return most - narrowed(lambda n: lacking(most - n), 0, most)
