"""What is unusual in a program's step, and what to try: a line each, with its figure.

Thresholds are shares of a step at which the remedy is worth an hour, of our own choosing; a remedy is what
torch's own tuning guide says (https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from archcli.graph import OpClass
from archcli.measure.profile.program.shares import calls_per_step
from archcli.recording.classes import FUSED, RANDOM, is_product
from archcli.recording.program import LOADER, OPTIMIZER, PlacedTime, ProgramRecording

MUCH_WAITING, MUCH_BETWEEN, MUCH_OPTIMIZER, MUCH_OUTSIDE = 0.05, 0.25, 0.10, 0.10
MUCH_CASTING, MUCH_MOVING, MUCH_ELEMENTWISE, MUCH_RANDOM, MUCH_SCORES = 0.05, 0.15, 0.30, 0.10, 0.05
MANY_CALLS = 100
"""Kernels of one optimizer's step beyond which it goes weight by weight."""
LITTLE_MFU = 0.3


class Remedy(NamedTuple):
    """A finding: what is unusual, with its figure, and what to try."""

    what: str
    figure: float
    attempt: str


def advice(recording: ProgramRecording, totals: Mapping[str, Any]) -> list[Remedy]:
    """What is unusual in a step, the largest share first."""
    found = [it for finder in FINDERS for it in finder(recording, totals)]
    return sorted(found, key=lambda it: -it.figure)


def _share(recording: ProgramRecording, chosen: Callable[[PlacedTime], bool]) -> float:
    return sum(it.seconds for it in recording.placed if chosen(it)) / recording.traced_total_s


def _waiting(recording: ProgramRecording, totals: Mapping[str, Any]) -> Iterator[Remedy]:
    share = totals["waiting_share"] + _share(recording, lambda it: it.path == LOADER)
    if share > MUCH_WAITING:
        yield Remedy(
            "of a step goes by in the data loader",
            share,
            "more workers (num_workers, persistent_workers=True, pin_memory=True)",
        )


def _between(recording: ProgramRecording, totals: Mapping[str, Any]) -> Iterator[Remedy]:
    share, calls = totals["framework_share"], totals["kernels_per_step"]
    if share > MUCH_BETWEEN:
        each = recording.kernels_s / max(1.0, calls * len(recording.traced_s)) * 1e6
        yield Remedy(
            f"of a step lies between its {calls:.0f} kernels of {each:.0f} us on average",
            share,
            f"larger batches{', torch.compile' * (not recording.graphs)}, fewer .item() in the step",
        )


def _optimizer(recording: ProgramRecording, _: Mapping[str, Any]) -> Iterator[Remedy]:
    share = _share(recording, lambda it: it.path == OPTIMIZER)
    calls = calls_per_step(recording, [it for it in recording.placed if it.path == OPTIMIZER])
    if share > MUCH_OPTIMIZER:
        weights = ", weight by weight" * (calls > MANY_CALLS)
        yield Remedy(
            f"of a step is the optimizer, {calls:.0f} kernels{weights}",
            share,
            "fused=True where it has it (AdamW, SGD), or more tokens for each of its steps",
        )


def _outside(recording: ProgramRecording, totals: Mapping[str, Any]) -> Iterator[Remedy]:
    share = totals["outside_share"]
    if share > MUCH_OUTSIDE:
        spent: dict[str, float] = {}
        for it in recording.placed:
            if it.path not in recording.modules and it.path not in {OPTIMIZER, LOADER}:
                spent[it.name] = spent.get(it.name, 0.0) + it.seconds
        names = ", ".join(sorted(spent, key=lambda name: -spent[name])[:3])
        yield Remedy(
            f"of a step is outside of modules: {names}",
            share,
            "less of it in every step: losses, gradients and metrics are what programs do there",
        )


def _casting(recording: ProgramRecording, _: Mapping[str, Any]) -> Iterator[Remedy]:
    share = _share(recording, lambda it: it.name == "_to_copy")
    if share > MUCH_CASTING:
        yield Remedy(
            "of a step casts or moves tensors (_to_copy)",
            share,
            "weights in the dtype that is computed in, and transfers with non_blocking=True",
        )


def _moving(recording: ProgramRecording, _: Mapping[str, Any]) -> Iterator[Remedy]:
    moves = (OpClass.MOVEMENT, str(OpClass.MOVEMENT))
    share = _share(recording, lambda it: it.op_class in moves and it.name != "_to_copy")
    if share > MUCH_MOVING:
        yield Remedy(
            "of a step copies and gathers",
            share,
            "look for .contiguous(), cat and indexing in the slowest modules",
        )


def _elementwise(recording: ProgramRecording, _: Mapping[str, Any]) -> Iterator[Remedy]:
    small = {str(OpClass.ELEMENTWISE), str(OpClass.NORMALIZATION)}
    share = _share(recording, lambda it: str(it.op_class) in small and it.path != OPTIMIZER)
    if share > MUCH_ELEMENTWISE and not recording.graphs:
        yield Remedy(
            "of a step is element-wise or normalization",
            share,
            "torch.compile(model), which fuses them",
        )


def _random(recording: ProgramRecording, _: Mapping[str, Any]) -> Iterator[Remedy]:
    share = _share(recording, lambda it: it.op_class == RANDOM)
    if share > MUCH_RANDOM:
        yield Remedy("of a step draws random numbers", share, "dropout=0.0, which large models train with")


def _scores(recording: ProgramRecording, _: Mapping[str, Any]) -> Iterator[Remedy]:
    if any(it.op_class == FUSED for it in recording.placed):
        return
    batched = {it.path for it in recording.placed if it.name in {"bmm", "baddbmm"}}
    share = _share(recording, lambda it: it.path in batched and not _is_linear(it.name))
    softmax = any(it.path in batched and "softmax" in it.name for it in recording.placed)
    if share > MUCH_SCORES and softmax:
        yield Remedy(
            "of a step is attention by products and a softmax apart",
            share,
            "torch.nn.functional.scaled_dot_product_attention, one kernel",
        )


def _is_linear(name: str) -> bool:
    return is_product(name) and name not in {"bmm", "baddbmm"}


def _slow(_: ProgramRecording, totals: Mapping[str, Any]) -> Iterator[Remedy]:
    if totals["mfu"] is not None and totals["mfu"] < LITTLE_MFU and totals["matmul_dtype"] == "fp32":
        attempt = "bf16 by torch.autocast, or torch.set_float32_matmul_precision('high') on a GPU"
        yield Remedy("is the MFU, with products in fp32", totals["mfu"], attempt)


FINDERS = (
    _waiting,
    _between,
    _optimizer,
    _outside,
    _casting,
    _moving,
    _elementwise,
    _random,
    _scores,
    _slow,
)
"""The questions that are asked of a program's step."""
