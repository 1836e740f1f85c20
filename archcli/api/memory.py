"""count_memory: `archcli memory` in Python."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from archcli.api.arguments import checked, degrees, record_of
from archcli.api.device import device_memory, known_gpus
from archcli.api.subject import given
from archcli.graph.kept import Backend
from archcli.measure.memory.answers.question import Fit, MemoryQuestion
from archcli.measure.memory.answers.report import count_memory as count
from archcli.measure.memory.plan import Plan
from archcli.measure.memory.settings import AttentionForm, MemoryPhase, MemorySettings
from archcli.measure.report import Report
from archcli.modules.spec.arguments import ModelLike, memory_bytes
from archcli.modules.spec.values import ValueType, value_type


def _memory(value: Any) -> str | int:
    return value if isinstance(value, str) else memory_bytes(value)


OWN = {
    "phase": value_type(MemoryPhase),
    "attention": value_type(AttentionForm),
    "fit": value_type(Fit | None),
    "memory": ValueType("bytes", _memory, {}),
    "plan": ValueType("a mapping from names", degrees, {}),
    "alternatives": value_type(bool),
    "device": value_type(str | None),
}
"""Values that names accept here beside those of all functions."""


@checked(OWN)
def count_memory(  # noqa: PLR0913
    model: ModelLike,
    phase: MemoryPhase = "train",
    batch_size: int = 1,
    seq_len: int | None = None,
    *,
    source_len: int | None = None,
    dtype: str = "bf16",
    attention: AttentionForm = "flash",
    backend: Backend = "cuda",
    optimizer: str = "adamw",
    recompute: str = "none",
    loss: str = "plain",
    grad_accum: int = 1,
    chunk: int | None = None,
    plan: Mapping[str, Any] | None = None,
    device: str | None = None,
    memory: str | int | None = None,
    fit: Fit | None = None,
    alternatives: bool = False,
) -> Report:
    """Memory of a training step or of inference: the report of `archcli memory`, whose options these are.

    `plan` are degrees of parallelism by name: {"dp": 8, "zero": 3}. `device` is a name such as "8xh100-sxm",
    `memory` a size such as "80GiB". `totals` hold peak_bytes, moment, parts, beyond_bytes, kept_bytes, ranks
    and fits.

    Example: `count_memory("gpt2", "decode", seq_len=1024).totals["parts"]["weights"]` is 248,879,616.
    """
    settings = record_of(MemorySettings, locals())
    subject = given(model)
    question = MemoryQuestion(subject.model, settings, Plan(**(plan or {})), device_memory(device, memory))
    gpus = known_gpus() if fit == "devices" and question.device is None else ()
    return subject.named(count(question, what_fits=fit, show_alternatives=alternatives, devices=gpus))


memory = count_memory
