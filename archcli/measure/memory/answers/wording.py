"""How a question about memory is put into words: the heading of its report, and its plan as options."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from archcli.measure.memory.answers.question import DeviceMemory, MemoryQuestion
from archcli.measure.memory.plan import Plan
from archcli.measure.memory.settings import MemorySettings

PHASES = {
    "train": "a training step",
    "forward": "a forward",
    "prefill": "a prefill",
    "decode": "one decoded token each",
    "serve": "serving",
}
UNITS = ((2**50, "PiB"), (2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))
DEFAULTS = MemorySettings()


def bytes_in_words(size: int) -> str:
    """Bytes to three figures with a binary unit: 79.1 GiB."""
    for unit, name in UNITS:
        if size >= unit:
            value = size / unit
            decimals = sum(value < limit for limit in (10, 100))
            return f"{value:,.{decimals}f} {name}"
    return f"{size} bytes"


def title(question: MemoryQuestion) -> str:
    """What is asked: `a training step, 1 x 2,048 tokens, bf16, adamw`."""
    return ", ".join(_parts(question))


def _parts(question: MemoryQuestion) -> Iterator[str]:
    settings = question.settings
    yield PHASES[settings.phase]
    tokens = f"{settings.batch_size:,} x {settings.tokens(question.model):,} tokens"
    yield f"{tokens} in the cache" if settings.phase == "decode" else tokens
    if settings.source_len is not None:
        yield f"source {settings.source_len:,}"
    yield settings.dtype
    if settings.phase == "train":
        yield settings.optimizer
    for name in ("attention", "backend", "recompute", "loss", "grad_accum", "chunk", "cache_dtype"):
        value = getattr(settings, name)
        if value != getattr(DEFAULTS, name):
            yield f"{name.replace('_', ' ')} {value}"
    if question.plan.devices > 1:
        yield plan_in_words(question.plan)
    if question.device is not None:
        yield f"{'in' if question.device.stated else 'on'} {device_in_words(question.device)}"


def device_in_words(device: DeviceMemory) -> str:
    """The device, and how many: `8 x h100-sxm`."""
    n, name = device.n_devices, device.name
    return name if n == 1 else f"{n:,} x {name}"


def plan_in_words(plan: Plan) -> str:
    """The degrees that are not 1: `dp 8, zero 3`."""
    return ", ".join(name.replace("_", " ") + value for name, value in _degrees(plan))


def plan_options(plan: Plan) -> str:
    """The plan as options of a command: `--dp 8 --zero 3`; empty for one device."""
    return " ".join(f"--{name.replace('_', '-')}{value}" for name, value in _degrees(plan))


def _degrees(plan: Plan) -> Iterator[tuple[str, str]]:
    for field in fields(Plan):
        value = getattr(plan, field.name)
        if value != field.default:
            yield field.name, "" if value is True else f" {value}"
