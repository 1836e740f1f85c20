"""What is unusual in a program's step, and what to try: a line each, with its figure.

Thresholds are shares of a step at which the remedy is worth an hour, of our own choosing; a remedy is what
torch's own tuning guide says (https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from archcli.graph import OpClass
from archcli.wings.running.profile.program.shares import calls_per_step
from archcli.wings.running.recording.program import LOADER, OPTIMIZER, PlacedTime, ProgramRecording
from archcli.wings.serving.recorded.classes import FUSED, RANDOM, is_product

MUCH_WAITING, MUCH_BETWEEN, MUCH_OPTIMIZER, MUCH_OUTSIDE = 0.05, 0.25, 0.10, 0.10
MUCH_CASTING, MUCH_MOVING, MUCH_ELEMENTWISE, MUCH_RANDOM, MUCH_SCORES = 0.05, 0.15, 0.30, 0.10, 0.05
MUCH_PRODUCTS = 0.30
MANY_CALLS = 100
"""Kernels of one optimizer's step beyond which it goes weight by weight."""
MOST_CALLS = 0.5
"""The share of a step's kernels beyond which what runs between them is mostly the optimizer's."""
MANY_READS = 5
"""Numbers that a step reads from tensors: a few are a loss and what is logged."""
FASTER = 1.5
"""How much faster a product in bf16 must be here, as casts take some of that."""
FUSING = {"Adam", "AdamW", "SGD", "Adagrad"}
"""Optimizers of torch that take fused=True."""
READ = "_local_scalar_dense"
"""Torch's operation behind .item(), float(tensor) and `if tensor:`."""


class Remedy(NamedTuple):
    """A finding: what is unusual, with its figure, and what to try."""

    what: str
    figure: float
    attempt: str


def advice(recording: ProgramRecording, totals: Mapping[str, Any]) -> list[Remedy]:
    """What is unusual in a step, the largest share first."""
    findings = [it for finder in FINDERS for it in finder(recording, totals)]
    return sorted(findings, key=lambda it: -it.figure)


def _share(recording: ProgramRecording, chosen: Callable[[PlacedTime], bool]) -> float:
    return sum(it.seconds for it in recording.placed if chosen(it)) / recording.traced_total_s


def _waiting(recording: ProgramRecording, totals: Mapping[str, Any]) -> Iterator[Remedy]:
    share = totals["waiting_share"] + _share(recording, lambda it: it.path == LOADER)
    if share > MUCH_WAITING:
        in_process, pinned = recording.loads_itself, ", pin_memory=True" * (recording.device == "cuda")
        yield Remedy(
            f"of a step goes by in the data loader{', which has no workers' * in_process}",
            share,
            f"num_workers=4 or {'' if in_process else 'more, or '}a cheaper transform{pinned}",
        )


def _between(recording: ProgramRecording, totals: Mapping[str, Any]) -> Iterator[Remedy]:
    share, calls = totals["framework_share"], totals["kernels_per_step"]
    if share <= MUCH_BETWEEN:
        return
    mean_us = recording.kernels_s / max(1.0, calls * len(recording.traced_s)) * 1e6
    updates = calls_per_step(recording, _of_optimizer(recording))
    reads = calls_per_step(recording, (it for it in recording.placed if _is_read(it)))
    attempts = ["larger batches", *["torch.compile"] * (not recording.graphs)]
    where = ""
    if updates > MOST_CALLS * calls:
        where = f", {updates:.0f} of them the optimizer's"
        attempts[:0] = _fused(recording)
    if reads > MANY_READS:
        attempts.insert(0, f"fewer of its {reads:.0f} .item() (also float(tensor), if tensor)")
    what = f"of a step lies between its {calls:.0f} kernels of {mean_us:.0f} us on average{where}"
    yield Remedy(what, share, ", ".join(attempts))


def _is_read(time: PlacedTime) -> bool:
    # optimizers read their own count of steps
    return time.name == READ and time.path != OPTIMIZER


def _of_optimizer(recording: ProgramRecording) -> list[PlacedTime]:
    return [it for it in recording.placed if it.path == OPTIMIZER]


def _optimizer(recording: ProgramRecording, _: Mapping[str, Any]) -> Iterator[Remedy]:
    share, times = _share(recording, lambda it: it.path == OPTIMIZER), _of_optimizer(recording)
    calls = calls_per_step(recording, times)
    if share > MUCH_OPTIMIZER:
        weights = ", weight by weight" * (calls > MANY_CALLS)
        attempts = [*_fused(recording), "more tokens for each of its steps"]
        yield Remedy(
            f"of a step is the optimizer, {calls:.0f} kernels{weights}", share, ", or ".join(attempts)
        )


def _fused(recording: ProgramRecording) -> list[str]:
    """The program's optimizer with its weights in one kernel, if torch has that and it is not used yet."""
    is_fused = any("fused" in it.name for it in _of_optimizer(recording))
    return [f"{name}(fused=True)" for name in recording.optimizers if name in FUSING and not is_fused][:1]


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
            "to run it less often: losses, clipping and metrics are there",
        )


def _casting(recording: ProgramRecording, _: Mapping[str, Any]) -> Iterator[Remedy]:
    share = _share(recording, lambda it: it.name == "_to_copy")
    transfers = ", and transfers with non_blocking=True" * (recording.device == "cuda")
    if share > MUCH_CASTING:
        yield Remedy(
            "of a step casts or moves tensors (_to_copy)",
            share,
            f"weights in the dtype that is computed in{transfers}",
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
    times = [it for it in recording.placed if str(it.op_class) in small and it.path != OPTIMIZER]
    spent = Counter[str]()
    for it in times:
        spent[recording.modules.get(it.path, it.path)] += it.seconds  # type: ignore[assignment]
    share = sum(spent.values()) / recording.traced_total_s
    if share > MUCH_ELEMENTWISE and not recording.graphs:
        (name, seconds), *_rest = spent.most_common(1)
        yield Remedy(
            f"of a step is element-wise or normalization, most of it {name} "
            f"({seconds / recording.traced_total_s:.1%})",
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


def _slow(recording: ProgramRecording, totals: Mapping[str, Any]) -> Iterator[Remedy]:
    share, fast = totals["by_class"].get(str(OpClass.CONTRACTION), 0.0), totals["bf16_flops_per_s"]
    if share < MUCH_PRODUCTS or totals["matmul_dtype"] != "fp32" or fast is None:
        return
    ratio = fast / totals["ceilings"]["gemm_flops_per_s"]
    if ratio > FASTER:
        tf32 = ", or torch.set_float32_matmul_precision('high')" * (recording.device == "cuda")
        what = f"of a step is matrix products in fp32; in bf16 they reach {ratio:.1f} times the FLOP/s here"
        yield Remedy(what, share, f"torch.autocast in bf16{tf32}")


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
