"""The memory to fit into: of named devices, of this machine, or an amount such as 24GB."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from archcli.errors import ArchError, Problem, either, quote
from archcli.units import parse_bytes
from archcli.wings.serving.devices.datasheet import Datasheet, device_named, load_datasheet
from archcli.wings.serving.devices.instances import counted, instance_of
from archcli.wings.serving.devices.line import figures_of, is_line
from archcli.wings.serving.devices.names import JOINED, LOCAL, is_file, is_listed_name, split_count

if TYPE_CHECKING:
    from archcli.wings.serving.recorded.cuda_driver import LocalGpu

FORGOT_UNIT = re.compile(r"\d{1,6}(\.\d{1,6})?", re.ASCII)
"""A number below a million without a unit: refused, as nobody means so few bytes."""
SIZE_ALONE = re.compile(r"\d{1,6}(?:\.\d+)?\s*(?:[KMGT]i?B|G)|\d{7,15}B", re.ASCII | re.IGNORECASE)
"""A memory in the place of a device: 24GB, but not 5070 Ti."""
OF_MEMORY = re.compile(r"(?:\s+(?:of|gpu|video|unified))*\s+(?:v?ram|memory)", re.IGNORECASE)
"""Words after an amount of memory: 16 GB of VRAM."""
MOST_UNLIKE = 16
"""Devices that llama.cpp takes: its GGML_CUDA_MAX_DEVICES."""
TAKE_MEMORY = ("AMD", "Intel")
"""Makers whose processors are sold without memory."""
NO_RATE = "no rate is stated, such as 165TFLOP/s: the limit is that of the memory alone"
STATED = "as stated"
OF_DRIVER = "the CUDA driver of this machine"
OF_LABEL = re.compile(r"\((?:R|TM)\)|\b(?:CPU|Processor|\d+-Core)\b|@.*")
"""Words of a processor's name that say nothing: Intel(R) Xeon(R) Processor @ 2.80GHz."""
OF_SYSTEM = "MemAvailable and the control groups of this machine"


class Budget(NamedTuple):
    """Memory to fit into: of a device, of several alike, or an amount.

    memory_bytes: of each, with its certainty (A, B, C) and source.
    kind: gpu, tpu, accelerator or cpu.
    architecture, link: such as sm_90 and nvlink; empty where unknown.
    datasheet: the other figures of a named device.
    free_bytes, in_all_bytes: of this machine's RAM, now and in all.
    """

    name: str
    n_devices: int
    memory_bytes: int
    certainty: str
    source: str
    kind: str = "gpu"
    architecture: str = ""
    link: str = ""
    datasheet: Datasheet | None = None
    free_bytes: int | None = None
    in_all_bytes: int | None = None

    @property
    def total_bytes(self) -> int:
        """Bytes of all devices together."""
        return self.n_devices * self.memory_bytes

    @property
    def is_stated(self) -> bool:
        """Whether it is an amount of memory, without a device."""
        return self.source == STATED


def read_budget(device: str | None = None, memory: str | int | None = None) -> Budget | None:
    """The memory that `--device [N×]NAME` or `--memory [N×]SIZE` states; None for neither.

    NAME is a device of `archcli devices`, a YAML file of one's own, `local`, or a memory alone, 24GB.
    ArchError for both, for fewer than one device, for a name that means no device or several, and for an
    amount without a unit.
    """
    if device is not None and memory is not None:
        what = "--device and --memory both say what memory there is"
        raise ArchError(what, "leave --device or --memory out")
    if memory is not None:
        return _of_size(memory)
    return None if device is None else _of_device(*counted(device))


def is_device(name: str) -> bool:
    """Whether a text is a device as --device takes it, several, or a memory in its place."""
    try:
        return all(read_budget(text) is not None for text in each_of(name))
    except ArchError:
        return False


def each_of(text: str) -> tuple[str, ...]:
    """The devices of a text that joins several, `2x3090+4090`, one by one; of another text itself.

    Equal ones stay together. Raises ArchError for one that is none beside others that are.
    """
    parts = [part for part in JOINED.split(text) if part.strip()]
    if len(parts) < 2 or is_line(text) or is_file(text) or _is_one(text):  # noqa: PLR2004
        return (text,)
    if not any(map(_is_one, parts)):
        return (text,)
    budgets = [budget for part in parts if (budget := read_budget(part)) is not None]
    if len({(budget.name, budget.memory_bytes) for budget in budgets}) == 1:
        return (f"{sum(budget.n_devices for budget in budgets)}x{split_count(parts[0])[1]}",)
    if sum(budget.n_devices for budget in budgets) > MOST_UNLIKE:
        raise ArchError(f"{quote(text)} are more than {MOST_UNLIKE} unlike devices", "such as 2x3090+4090")
    named = zip(parts, budgets, strict=True)
    return tuple(split_count(part)[1] for part, budget in named for _ in range(budget.n_devices))


def _is_one(text: str) -> bool:
    try:
        return read_budget(text) is not None
    except ArchError:
        return False


def _bare_size(text: str) -> str:
    """The amount alone: `16 GB` of `16 GB of VRAM`; any other text unchanged."""
    return OF_MEMORY.sub("", text) if OF_MEMORY.search(text) else text


def size_alone(name: str) -> str:
    """The size of a memory that stands in the place of a device, such as 16 GB of VRAM; empty for a name."""
    size = _bare_size(name)
    return size if SIZE_ALONE.fullmatch(size) else ""


def device_note(device: str) -> str:
    """A note if `[N×]NAME` is ambiguous: several devices, several sizes of memory, or a memory alone."""
    return "; ".join(dict.fromkeys(filter(None, map(_note, each_of(device)))))


def _note(device: str) -> str:
    _, name = split_count(device)
    if instance := instance_of(name):
        return instance.note
    if size_alone(name):
        return f"{name} is a memory alone: what speed and which formats its device has is not known"
    if is_line(name):
        return "" if {*figures_of(name)} - {"memory_bytes", "bandwidth_gb_s"} else NO_RATE
    if not is_listed_name(name):
        return ""
    try:
        named, sheet = device_named(name), load_datasheet(name)
    except ArchError:
        return ""
    return named.note or _memory_note(sheet)


def _memory_note(sheet: Datasheet) -> str:
    """A note on the memory that was taken, of several, or that the device is not sold with."""
    label, sizes = sheet.figures.get("memory_gb"), sorted(sheet.memory_sizes)
    of, _, size = sheet.name.partition(":")
    if size:
        # of one memory, or with the size in its name
        if sheet.kind == "cpu" or label is None or label.value in sheet.memory_sizes:
            return ""
        return f"{of} is not sold with {label.value:g} GB: a card whose memory was changed, at its own rates"
    if sheet.kind == "cpu" and sheet.vendor in TAKE_MEMORY and label is not None:
        return f"{of} is taken with {label.value:,} GB, the most that it takes: {of}:64gb has less"
    if len(sizes) > 1:
        return f"{of} is sold with {either([str(size) for size in sizes])} GB, of which the largest is taken"
    return ""


def _of_device(count: int, name: str) -> Budget:
    if name.lower() == LOCAL:
        from archcli.wings.serving.recorded.cuda_driver import local_gpus  # of this machine alone

        return _of_machine(count, local_gpus())
    if alone := size_alone(name):
        return _of_size(f"{count}x{alone}" if count > 1 else alone)
    sheet = load_datasheet(name)
    size = sheet.figures.get("memory_bytes")
    if size is None:
        path = name if is_file(name) else ""
        hint = "add memory_bytes or memory_gb, or state it: --memory 80GiB"
        raise ArchError(Problem(f"device {quote(sheet.name)} states no memory", hint, path=path))
    known = (sheet.kind, sheet.architecture, sheet.link, sheet)
    return Budget(sheet.name, count, int(size.value), size.certainty, size.source, *known)


def _of_machine(count: int, gpus: Sequence[LocalGpu]) -> Budget:
    """This machine's first `count` GPUs, each with the memory of the smallest, or its CPU."""
    if not gpus:
        return _of_processor(count)
    if count > len(gpus):
        has = f"{len(gpus)} GPU{'s' if len(gpus) > 1 else ''}"
        raise ArchError(f"{count} × {LOCAL}: this machine has {has}", f"name a device: {count}xh100-sxm")
    least = min(gpus[:count], key=lambda gpu: gpu.memory_bytes)
    architecture = least.architecture
    return Budget(least.name, count, least.memory_bytes, "A", OF_DRIVER, "gpu", architecture)


def _of_processor(count: int) -> Budget:
    from archcli.wings.serving.recorded import machine  # of this machine alone

    available = machine.available_memory()
    if count > 1:
        what = f"{count} × {LOCAL}: this machine has no GPU that CUDA sees, and one memory"
        raise ArchError(what, f"name a device: {count}xh100-sxm")
    if available is None:
        what = f"{LOCAL}: this machine has no GPU that CUDA sees and does not say what memory is available"
        raise ArchError(what, "state it: --memory 16GiB")
    cores = machine.cores()
    model = " ".join(OF_LABEL.sub(" ", machine.processor().partition(" x ")[2]).split())
    name = f"{cores} core{'s' * (cores > 1)} of {model}" if model else "CPU"
    in_all = machine.total_memory()
    return Budget(name, 1, available, "A", OF_SYSTEM, "cpu", free_bytes=available, in_all_bytes=in_all)


def size_of(option: str, size: str | int) -> int:
    """The bytes of an option such as --free 20GiB. Raises ArchError for an amount without a unit."""
    return _of_size(size, option).memory_bytes


def _of_size(memory: str | int, option: str = "--memory") -> Budget:
    if not isinstance(memory, str):
        count, size, name = 1, memory, f"{memory:,} bytes"
    else:
        count, name = split_count(_bare_size(memory))
        if FORGOT_UNIT.fullmatch(name):
            hint = f"write {name}GB (powers of 1,000) or {name}GiB (powers of 1,024)"
            raise ArchError(f"{option} {name} has no unit", hint)
        size = parse_bytes(name)
    if size < 1:
        raise ArchError(f"{option} {name} is no memory", "such as 80GiB")
    return Budget(name, count, size, "A", STATED)
