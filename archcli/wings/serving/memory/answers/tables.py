"""Tables of `archcli memory`: the peak by its parts, ranks, devices, serving, batch size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Any, NamedTuple

from archcli.measure.kvcache.engine import CACHING, NO_ENGINE
from archcli.measure.report import Column, Table
from archcli.modules import Model
from archcli.units import binary_bytes
from archcli.wings.serving.memory.answers.question import MemoryQuestion
from archcli.wings.serving.memory.answers.recomputations import folded_rows
from archcli.wings.serving.memory.plan import DeviceMemory, Plan
from archcli.wings.serving.memory.settings import MemorySettings

PHASES = {
    "train": "a training step",
    "forward": "a forward",
    "prefill": "a prefill",
    "decode": "one decoded token each",
    "serve": "serving",
}
DEFAULTS = MemorySettings()


def title(question: MemoryQuestion) -> str:
    """The question in words: `a training step, 1 x 2,048 tokens, bf16, adamw`."""
    return ", ".join(_parts(question))


def _parts(question: MemoryQuestion) -> Iterator[str]:
    settings = question.settings
    yield PHASES[settings.phase]
    tokens = f"{settings.batch_size:,} x {settings.tokens(question.model):,} tokens"
    yield f"{tokens} in the cache" if settings.phase == "decode" else tokens
    if settings.source_len is not None:
        yield f"source {settings.source_len:,}"
    yield stored_in_words(question.model, settings.dtype)
    if settings.phase == "train":
        yield settings.optimizer
    yield from _trainer_part(settings)
    for name in ("attention", "backend", "recompute", "loss", "grad_accum"):
        value = getattr(settings, name)
        if value != getattr(DEFAULTS, name):
            yield f"{name.replace('_', ' ')} {value}"
    if settings.phase in CACHING:
        yield from _serving_parts(settings)
        yield from _draft_part(question)
    if settings.offload is not None:
        yield settings.offload.in_words
    if settings.gradients is not None:
        yield f"gradients in {settings.gradients}"
    if question.plan.devices > 1:
        yield plan_in_words(question.plan)
    if question.device is not None:
        yield f"{'in' if question.device.stated else 'on'} {device_in_words(question.device)}"


def _trainer_part(settings: MemorySettings) -> Iterator[str]:
    if settings.trainer is not None:
        yield f"{settings.trainer.name} {settings.trainer.version.partition(' ')[0]}"


def _serving_parts(settings: MemorySettings) -> Iterator[str]:
    # an engine's own chunk goes without saying
    if settings.chunk not in {None, (settings.engine or NO_ENGINE).chunk}:
        yield f"chunk {settings.chunk}"
    yield engine_in_words(settings)
    if settings.cache_dtype is not None:
        yield f"cache in {settings.cache_dtype}"
    if settings.engine and settings.engine.adapters:
        yield f"adapters {settings.engine.adapters}"


def _draft_part(question: MemoryQuestion) -> Iterator[str]:
    if question.draft is not None:
        yield f"draft {question.draft.name}"


def engine_in_words(settings: MemorySettings) -> str:
    """What runs the pass: `vllm`, or `eager torch`."""
    engine = settings.engine or NO_ENGINE
    return engine.title if engine.name == "none" else engine.name


def stored_in_words(model: Model, dtype: str, native: str = "") -> str:
    """The format of the weights, the `native` dtype of their products if it is another, that of all else."""
    published = "as published" if model.is_as_published else ""
    if published and model.quantization is not None and model.quantization.label:
        published += f" ({model.quantization.label})"
    stored = " ".join(filter(None, (model.stored_as, published)))
    if not stored:
        return dtype
    return f"{stored}, computed in {dtype}" if not native else f"{stored}, computed in {native} and {dtype}"


def device_in_words(device: DeviceMemory) -> str:
    """The device, and how many: `8 x h100-sxm`."""
    n, name = device.n_devices, device.name
    return name if n == 1 or device.unlike else f"{n:,} x {name}"


def memory_in_words(device: DeviceMemory) -> str:
    """What there is of each device: `79.1 GiB`, or `22.0 GiB free of 31.2 GiB`."""
    of = "" if device.free_bytes is None else f" free of {binary_bytes(device.in_all_bytes or 0)}"
    return f"{binary_bytes(device.memory_bytes)}{of}"


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


DOUBLINGS = 12
LINES = ("rtx-4090", "a100-sxm-40gb", "h100-sxm", "h200-sxm", "b200-sxm", "mi355x")
"""Devices that are drawn where the question names none: one of each usual size."""
USUAL_DEVICES = {*LINES, "a100-sxm-80gb"}
"""Devices that the first line names, of all that would do."""


FEWEST_POINTS = 4
"""Of a curve over batch sizes, also where none fits."""


class BatchCurve(NamedTuple):
    """(batch size, bytes) of the peak with what is beyond the model, and (name, bytes) of devices."""

    points: tuple[tuple[int, int], ...]
    devices: tuple[tuple[str, int], ...]


def batch_curve(question: MemoryQuestion, known: Sequence[DeviceMemory]) -> BatchCurve:
    """Peaks of batch sizes that double from 1, to the first beyond the largest device."""
    usual = [device for device in known if device.name in LINES]
    devices = [question.device] if question.device else usual
    most = max((device.memory_bytes for device in devices), default=0)
    points = []
    for n in range(DOUBLINGS):
        points.append((2**n, question.changed(batch_size=2**n).answer().needed_bytes))
        if points[-1][1] > most and len(points) >= FEWEST_POINTS:
            break
    return BatchCurve(tuple(points), tuple((device.name, device.memory_bytes) for device in devices))


BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
CONTEXTS = 6


def serve_table(question: MemoryQuestion) -> Iterator[Table]:
    """Batch size by context: a tick where both fit; no table without a device, or where nothing fits.

    It ends with the first batch size that fits with no context.
    """
    if question.device is None:
        return
    longest = question.settings.text_tokens(question.model)
    contexts = [size for size in (longest >> i for i in range(CONTEXTS)) if size][::-1]
    most = {n: _most(question.changed(seq_len=n)) for n in contexts}
    if not any(most.values()):
        return
    records = [
        {"batch_size": batch, **{str(n): i < most[n] for n in contexts}}
        for i, batch in enumerate(BATCHES[: max(most.values()) + 1])
    ]
    columns = (
        Column("batch_size", "sequences", "number"),
        *(Column(str(n), f"{n:,}", "flag") for n in contexts),  # short, so that 60 columns hold all
    )
    yield Table(f"what fits into {question.device.name}: sequences of so many tokens", columns, records)


def _most(question: MemoryQuestion) -> int:
    """How many of BATCHES fit, by bisection: more sequences take more memory."""
    low, high = 0, len(BATCHES)
    while low < high:
        middle = (low + high) // 2
        fits = question.changed(batch_size=BATCHES[middle]).fits()
        low, high = (middle + 1, high) if fits else (low, middle)
    return low


Record = dict[str, Any]
ROWS = 8
LABELS = {
    "kept": "activations kept for backward",
    "optimizer": "optimizer states",
    "gathered": "gathered from other devices",
}
BYTES = Column("peak_bytes", "peak", "bytes")


def peak_table(totals: Record) -> Table:
    """What the peak is made of."""
    peak, labels = totals["peak_bytes"], LABELS
    if "parameters" in totals.get("offload", {}).get("parts", ()):
        labels = {**LABELS, "gathered": "gathered from RAM"}
    records = [
        {"what": labels.get(name, name), "bytes": size, "share": size / peak}
        for name, size in _by_purpose(totals).items()
        if size
    ]
    columns = (Column("what", "what"), Column("bytes", "bytes", "bytes"), Column("share", "share", "share"))
    footer = {"what": "peak", "bytes": peak, "share": 1.0}
    return Table("what the peak is made of", columns, records, footer)


def _by_purpose(totals: Record) -> dict[str, int]:
    """The parts of the peak; weights of towers, which the first stage holds, in a line of their own."""
    parts: dict[str, int] = totals["parts"]
    if "towers" not in totals or totals["ranks"][0]["stage"]:
        return parts
    towers = sum(totals["towers"]["weights_bytes"].values())
    return {"weights": parts["weights"] - towers, "weights of towers and projectors": towers} | {
        name: size for name, size in parts.items() if name != "weights"
    }


def moment_table(moments: Sequence[Record]) -> Table:
    """The highest point of each moment."""
    columns = (Column("moment", "moment"), Column("path", "while it runs"), BYTES)
    return Table("the highest point of each moment", columns, moments)


def rank_table(ranks: Sequence[Record]) -> Table:
    """The peaks of the ranks that differ."""
    unlike = (
        Column("device", "device"),
        Column("memory_bytes", "of", "bytes"),
        Column("fits", "fits", "flag"),
    )
    columns = (
        Column("stage", "stage", "number"),
        Column("rank", "rank", "number"),
        Column("moment", "at"),
        BYTES,
        *(unlike if "device" in ranks[0] else ()),
    )
    return Table("ranks", columns, ranks)


def device_table(records: Sequence[Record]) -> Table:
    """For each kind of device that holds it whether one is enough, the fewest that are, and their plan."""
    columns = (
        Column("device", "device"),
        Column("memory_bytes", "memory", "bytes"),
        Column("fits", "fits", "flag"),
        Column("fewest_devices", "fewest", "number"),
        Column("options", "plan"),
    )
    holding = [record for record in records if record["fewest_devices"] is not None]
    shown = [{**record, "options": record["options"] or None} for record in holding]
    return Table("devices that hold it, least memory in all first", columns, shown)


def kept_table(rows: list[Record]) -> Table:
    """Activations kept for backward, the most bytes per FLOP first."""
    records = [
        {**row, "mb_per_gflop": _mb_per_gflop(row["freed_bytes_per_flop"])} for row in folded_rows(rows)
    ]
    columns = (
        Column("path", "made by"),
        Column("kept_bytes", "bytes", "bytes"),
        Column("mb_per_gflop", "MB freed per GFLOP", "number"),
    )
    hidden = len(records) - ROWS
    more = f"; {hidden} more rows in --json" if hidden > 0 else ""
    title = f"activations kept for backward, best to recompute first{more}"
    return Table(title, columns, records[:ROWS])


def _mb_per_gflop(bytes_per_flop: float | None) -> float | None:
    return None if bytes_per_flop is None else round(bytes_per_flop * 1e3, 3)
