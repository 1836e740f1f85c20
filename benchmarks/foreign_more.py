"""A hundred more modules by others, each beside a real pass: what a stranger may bring, and what it gets.

usage: python benchmarks/foreign_more.py [--install FOLDER] [NAME ...]

With --install, run in the environment of foreign.py. For each module it prints a line of CSV:

- run_on: meta, or cpu where the module looks at values and fake tensors have none
- params: "equal" to the sum over `parameters()`, or the difference
- flops, train_flops: `executed_flops` of a forward, and of one with its backward; real_*: of the same pass on
  this CPU, by torch's formulas and, of the operations under by_hand, by arithmetic with real numbers
- hand: FLOPs of the forward worked out by hand, where the module's maker states them
- forward_peak, train_peak: bytes of a pass; real_*: live storages of the same pass on this CPU
- note: what fails, in the line that a user gets

A cell of a pass that fails in torch, too, is empty. foreign_more.csv beside it is its output, of the packages
that foreign.py names.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from foreign import print_table
from foreign_models import MODELS
from foreign_reference import real_flops, real_peak, seed
from foreign_torch import TORCH
from torch.nn.attention import SDPBackend, sdpa_kernel

import archcli
from archcli.errors import ArchError

FIELDS = (
    *("package", "module", "run_on", "params", "flops", "real_flops", "hand", "by_hand"),
    *("train_flops", "real_train_flops", "forward_peak", "real_forward_peak", "train_peak"),
    *("real_train_peak", "note"),
)
MODULES = {**{f"torch:{name}": make for name, make in TORCH.items()}, **MODELS}


def main() -> None:
    """Print the table of 97 modules."""
    logging.disable(logging.WARNING)
    print_table(__file__, __doc__, FIELDS, MODULES, line)


def line(name: str, make: Callable[[], tuple[Any, ...]]) -> dict[str, Any]:
    """The line of one module."""
    package, _, called = name.partition(":")
    record: dict[str, Any] = {"package": package, "module": called, "run_on": "meta", "note": ""}
    seed()
    module, inputs, *hand = make()
    exact = sum(weight.numel() for weight in module.parameters())
    params = archcli.count_params(module, inputs).totals["params"]
    record |= {"params": "equal" if params == exact else params - exact, "hand": hand[0] if hand else ""}
    record["flops"] = on_either(record, lambda run_on: flops(module, inputs, "forward", run_on))
    record["real_flops"], by_hand = in_torch(lambda: real_flops(module, inputs, "forward")) or ("", set())
    record["by_hand"] = " ".join(sorted(by_hand))
    of_training = in_torch(lambda: real_flops(module, inputs, "train"))
    record["real_train_flops"] = of_training[0] if of_training else ""
    for phase in ("forward", "train"):
        record[f"{phase}_peak"] = on_either(record, lambda run_on: peak(module, inputs, phase, run_on))  # noqa: B023
        record[f"real_{phase}_peak"] = in_torch(lambda: real_peak(module, inputs, phase))  # noqa: B023
    if of_training:
        record["train_flops"] = on_either(record, lambda run_on: flops(module, inputs, "train", run_on))
    return record


def flops(module: Any, inputs: Any, phase: str, run_on: str) -> int:
    """Executed FLOPs; of a training step with attention step by step, as the real one runs."""
    step_by_step = [SDPBackend.MATH] if phase == "train" else list(SDPBackend.__members__.values())[1:4]
    seed()
    with sdpa_kernel(step_by_step):
        counted = archcli.count_flops(module, inputs, phase=phase, run_on=run_on)
    return int(counted.totals["executed_flops"])


def peak(module: Any, inputs: Any, phase: str, run_on: str) -> int:
    """The peak of a pass."""
    seed()
    return int(archcli.count_memory(module, inputs, phase=phase, run_on=run_on).totals["peak_bytes"])


def on_either(record: dict[str, Any], count: Callable[[str], int]) -> int | str:
    """A count without values, or with them where it asks for them; what fails is the note."""
    try:
        return count("meta")
    except ArchError as refused:
        if "run_on='cpu'" not in str(refused.problems[0].hint):
            record["note"] = record["note"] or one_line(refused)
            return ""
    try:
        value = count("cpu")
    except ArchError as refused:
        record["note"] = record["note"] or one_line(refused)
        return ""
    record["run_on"] = "cpu"
    return value


def one_line(error: ArchError) -> str:
    """An error's text with paths shortened: it is one line."""
    text = str(error).replace(str(Path(torch.__file__).parents[1]), "…")
    return text.replace(str(Path(__file__).parents[1]), "…")


def in_torch(count: Callable[[], Any]) -> Any:
    """A real pass's figure, nothing where torch itself cannot run it."""
    try:
        return count()
    except Exception:  # noqa: BLE001 - a stranger's code may raise anything
        return ""


if __name__ == "__main__":
    main()
