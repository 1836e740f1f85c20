"""Trainers of 2025, which fuse kernels, beside the constants of earlier ones; the fastest attention.

Nothing is fitted on them: they widen the range of a training step.
"""

from collections import defaultdict
from functools import cache

import numpy as np
from engine_fits import asked

from archcli.wings.serving.devices.datasheet import load_datasheet
from archcli.wings.serving.devices.engines import kernel_entries, measured_engines
from efficiency.held_out import rounded
from efficiency.steps import CHIP_OF

TRAINERS = {"train": "Megatron-Bridge, NeMo Automodel", "train_llmq": "llmq, H100"}
"""The trainers of rows of speed/field.csv, by kind."""
FORWARD, BACKWARD = 0.73, 0.63
"""The most of A100's peak that FlashAttention 2 reaches each way, by its paper (arXiv:2307.08691)."""
FORWARD_PRODUCTS, BACKWARD_PRODUCTS = 2, 5


@cache
def trainers():
    """(measured over expected, floor over measured) of their steps on devices with constants of steps.

    They fuse kernels, by hand or by a compiler: archcli is asked with --compile.
    """
    found = defaultdict(list)
    for row in asked.rows():
        if row.kind in TRAINERS and load_datasheet(row.device).efficiency.get("training"):
            row.ask["compiled"] = True
            seconds, measured = row.question.answer().prediction.seconds, row.measured_s
            found[TRAINERS[row.kind]].append((measured / seconds.expected, seconds.floor / measured))
    return {name: np.array(rows).T for name, rows in found.items()}


def attention_best(device):
    """The fraction of the peak that the fastest measured kernel of attention leads to, forward and backward.

    Forward an engine's kernel was measured, with heads of 128. Backward it is slower by as much as in the
    paper of FlashAttention 2.
    """
    chip = CHIP_OF.get(device, device)
    known = [kernel_entries(engine, chip, "attention_prefill") for engine in measured_engines()]
    forward = max(one["compute"] for entries in known for one in entries if is_usual(one))
    seconds = FORWARD_PRODUCTS / forward + BACKWARD_PRODUCTS / (forward * BACKWARD / FORWARD)
    return rounded((FORWARD_PRODUCTS + BACKWARD_PRODUCTS) / seconds)


def is_usual(kernel):
    """Whether a kernel takes bf16 and heads of 128."""
    return kernel["dtype"] == kernel["cache"] == "bf16" and "128" in kernel["widths"]
