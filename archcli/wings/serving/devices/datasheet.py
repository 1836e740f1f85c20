"""Devices: what GPUs and their like can hold and do, as YAML files, every figure with its source.

A file describes one device, or a series of devices that share figures:

    vendor: Apple
    kind: gpu
    source: "Apple's technical specifications"
    certainty: A
    estimates: "cores x 256 x 1.38 GHz"
    variants:
      m3-pro: {bandwidth_gb_s: 150, fp32_tflops: ~6.4, memory_sizes: {18gb: 12884901888, 36gb: 28991029248}}
      m3-max: {bandwidth_gb_s: 400, fp32_tflops: ~14.1, memory_sizes: {128gb: 103079215104}}

A variant has the keys of the file and its own on top. `~` before a figure marks an estimate.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from archcli.errors import ArchError, Problem, either, quote, suggest
from archcli.load.presets import shipped
from archcli.load.yaml.nodes import Node, shown
from archcli.load.yaml.reader import Document, parse
from archcli.load.yaml.reader import resolve as scalar
from archcli.load.yaml.text import decode, read_start, text_of
from archcli.wings.serving.devices.efficiency import Constants, borrowed, efficiency_mistakes, efficiency_of
from archcli.wings.serving.devices.line import figures_of, is_line
from archcli.wings.serving.devices.names import LOCAL, DeviceName, is_file, resolve

FIGURES: dict[str, str] = {
    "memory_bytes": "bytes",
    "memory_gb": "GB of the label",
    "bandwidth_gb_s": "GB/s to its memory",
    "bf16_tflops": "TFLOP/s, dense",
    "fp16_tflops": "TFLOP/s, dense",
    "fp8_tflops": "TFLOP/s, dense",
    "fp4_tflops": "TFLOP/s, dense",
    "int8_tops": "TOP/s, dense",
    "tf32_tflops": "TFLOP/s, dense",
    "fp32_tflops": "TFLOP/s, without matrix engines",
    "bus_bits": "bits of the bus to its memory",
    "pin_gbit_s": "Gbit/s of each of them",
    "l2_mb": "MB of the last cache",
    "link_gb_s": "GB/s to its neighbours, one way",
    "network_gb_s": "GB/s to other machines, one way",
    "devices_per_node": "devices that the link joins",
    "tdp_w": "W",
}
"""Figures of a device, with their units; a rate is dense, and of a GeForce with fp32 accumulation."""

TEXTS = ("name", "vendor", "kind", "architecture", "link", "source", "second_source", "remark", "same_chip")
NEEDED = ("name", "vendor", "kind", "source", "certainty")
KEYS = (*TEXTS, "estimates", "certainty", *FIGURES, "memory_sizes", "efficiency")
KINDS = ("gpu", "tpu", "accelerator", "cpu")
CERTAINTIES = ("A", "B", "C")
"""A the maker's own document, B computed from one or read in one place, C estimated."""

ESTIMATE = "~"
SIZE = re.compile(r"([1-9]\d{0,4})gb", re.ASCII)
VARIANTS = "\nvariants:\n"
"""The last key of a series."""
VARIANT = re.compile(r"^  ([a-z0-9-]+):", re.MULTILINE)
ARCHITECTURE = re.compile(r"^architecture: (\w+)$", re.MULTILINE)
OF_LINE = "as stated in the device's line"
OF_LABEL = "the label's GB taken as GiB; what a driver reports is a little less"
INSTANCES = "instances.yaml"
"""The file beside those of the devices that says what clouds call several of them."""
MOST_BYTES = 1 << 16
HBM_BITS = 1024
"""Bits of the narrowest bus to stacked memory, which nobody changes."""
LARGEST = 1e18


class SourcedFigure(NamedTuple):
    """A figure of a device: its value, how certain it is (A, B or C), and where it was read."""

    value: float
    certainty: str
    source: str


class Datasheet(NamedTuple):
    """The datasheet of a GPU, TPU, accelerator or CPU.

    architecture: a compiler's name, sm_90 or gfx942; empty without one. link: nvlink, pcie, …
    same_chip: the device whose efficiency it has.
    figures: the known ones of `FIGURES`; of several memory sizes those of the largest.
    memory_sizes: bytes by GB of the label, of a device sold in several sizes.
    efficiency: fitted constants that turn counts into an expected time; empty where nobody fitted any.
    """

    name: str
    vendor: str
    kind: str
    architecture: str
    link: str
    second_source: str
    remark: str
    same_chip: str
    figures: Mapping[str, SourcedFigure]
    memory_sizes: Mapping[int, SourcedFigure] = MappingProxyType({})
    efficiency: Constants = MappingProxyType({})

    def of_size(self, memory_gb: int) -> Datasheet:
        """The same device with another memory.

        Raises ArchError for a size that it is neither sold with nor changed to.
        """
        label = self.figures.get("memory_gb")
        if self.takes(memory_gb):
            return self._with(memory_gb, _whole(memory_gb))
        if memory_gb not in self.memory_sizes:
            if label is not None and label.value == memory_gb:
                return self
            sold = either([f"{size} GB" for size in self.memory_sizes or ([label.value] if label else [])])
            hint = f"it is sold with {sold}" if sold else "its YAML states no memory_sizes"
            raise ArchError(f"device {quote(self.name)} has no memory of {memory_gb} GB", hint)
        return self._with(memory_gb, self.memory_sizes[memory_gb])

    def _with(self, memory_gb: int, size: SourcedFigure) -> Datasheet:
        figures = {**self.figures, **_of_label(memory_gb, size)}
        return self._replace(name=f"{self.name}:{memory_gb}gb", figures=figures)

    def takes(self, memory_gb: int) -> bool:
        """Whether a processor takes so much, or a card is changed to it, by chips twice as large."""
        label = self.figures.get("memory_gb")
        if label is None or self.kind == "cpu":
            return label is not None and memory_gb < label.value
        is_card = "bus_bits" in self.figures and self.figures["bus_bits"].value < HBM_BITS
        changed = 2 * label.value == memory_gb and memory_gb not in self.memory_sizes
        return changed and is_card and self.link.startswith("PCIe") and "devices_per_node" not in self.figures


@cache
def folder() -> Path:
    """The folder of devices."""
    return shipped("devices")


def devices() -> list[str]:
    """The names of the devices that come with archcli, in alphabetical order."""
    return list(_files(folder()))


def device_names() -> list[str]:
    """Names that a shell offers: the devices that are shipped, and this machine."""
    return [*devices(), LOCAL]


@cache
def _files(place: Path) -> Mapping[str, Path]:
    """The file of each device. Names are found without parsing: a variant begins a line of its own."""
    files: dict[str, Path] = {}
    for path in (path for path in place.glob("*.yaml") if path.name != INSTANCES):
        _, is_series, variants = _text(path).partition(VARIANTS)
        files.update(dict.fromkeys(VARIANT.findall(variants) if is_series else [path.stem], path))
    return dict(sorted(files.items()))


def fitted_devices() -> Mapping[str, str]:
    """The architectures of the devices whose own files have constants, by name; found without parsing."""
    return _fitted(folder())


@cache
def _fitted(place: Path) -> Mapping[str, str]:
    architectures = {
        name: ARCHITECTURE.search(_text(path))
        for name, path in _files(place).items()
        if "\nefficiency:" in _text(path)
    }
    return {name: known[1] for name, known in architectures.items() if known}


def load_datasheet(name: str) -> Datasheet:
    """The device of a name, of a line of figures or of one's own YAML; ArchError with all that is wrong."""
    if is_line(name):
        return _of_line(name)
    if is_file(name):
        return read_datasheet(decode(read_start(Path(name), name, MOST_BYTES), name), name)
    if name in _stems(folder()):
        # most often: the other files are not read for their names
        listed = _only(folder() / f"{name}.yaml")
        if listed is not None:
            return listed
    device = device_named(name)
    sheet = _shipped(device.name)
    return sheet if device.memory_gb is None else _of_size(sheet, device.memory_gb)


@lru_cache(64)
def device_named(name: str) -> DeviceName:
    """The device that comes with archcli by a name as people write it; ArchError with near ones for none."""
    return resolve(name, devices())


def _of_line(text: str) -> Datasheet:
    """The device whose figures a text states: 24GB, 1008GB/s, 165TFLOP/s."""
    amounts = figures_of(text)
    figures = {key: SourcedFigure(amounts[key], "A", OF_LINE) for key in FIGURES if key in amounts}
    return Datasheet(" ".join(text.split()), "", "gpu", "", "", "", "", "", figures)


@cache
def _only(path: Path) -> Datasheet | None:
    """The device of a shipped file of one; None where a file has several."""
    text = _text(path)
    return None if VARIANTS in text else read_datasheet(text, path.name)


def _shipped(name: str) -> Datasheet:
    path = _files(folder())[name]
    return _of_file(path, "" if path.stem == name else name)


@cache
def _of_file(path: Path, variant: str) -> Datasheet:
    return read_datasheet(_text(path), path.name, variant)


@cache
def _stems(place: Path) -> frozenset[str]:
    """The names of the files, most of which are those of devices."""
    return frozenset(path.stem for path in place.glob("*.yaml") if path.name != INSTANCES)


@cache
def _text(path: Path) -> str:
    return decode(read_start(path, path.name, MOST_BYTES), path.name)


def _of_size(sheet: Datasheet, memory_gb: int) -> Datasheet:
    """A shipped device with a memory, else its one sibling of that memory: M3 Max 36GB has 30 cores.

    Raises ArchError where several are, or none.
    """
    try:
        return sheet.of_size(memory_gb)
    except ArchError:
        siblings = [_shipped(name) for name in devices() if name.startswith(f"{sheet.name}-")]
        siblings = [sibling for sibling in siblings if memory_gb in sibling.memory_sizes]
        if not siblings:
            raise
        if len(siblings) == 1:
            return siblings[0].of_size(memory_gb)
        sold = [f"{sibling.name}:{memory_gb}gb" for sibling in siblings]
        what = f"device {quote(sheet.name)} has no memory of {memory_gb} GB"
        raise ArchError(what, f"did you mean {either(sold)}?") from None


def read_datasheet(text: str, name: str, variant: str = "") -> Datasheet:
    """The device that a YAML text describes, or one of its variants; `name` stands in messages."""
    document = _parsed(text, name)
    root = document.root
    if root is None or not isinstance(root.value, dict):
        hint = "it has name, vendor, kind, source, certainty and figures"
        raise ArchError([*document.problems, Problem("a device is a mapping", hint, path=name)])
    keys = _of_variant(root.value, variant)
    problems = [*document.problems, *_mistakes(keys, name)]
    if problems:
        raise ArchError(problems)
    return _device(keys)


@lru_cache(64)
def _parsed(text: str, name: str) -> Document:
    """The YAML of a file, once for all devices of a series."""
    return parse(text_of(text, name))


def _of_variant(keys: Mapping[str, Node], variant: str) -> Mapping[str, Node]:
    """The keys of one variant: those of the file, and its own on top."""
    if not variant:
        return keys
    node = keys["variants"].value[variant]
    shared = {key: node for key, node in keys.items() if key != "variants"}
    return {"name": node.holding(variant), **shared, **node.value}


def _device(keys: Mapping[str, Node]) -> Datasheet:
    texts = {key: str(keys[key].value) if key in keys else "" for key in TEXTS}
    origin = SourcedFigure(0, keys["certainty"].value, texts.pop("source"))
    estimate = SourcedFigure(0, "C", str(keys["estimates"].value) if "estimates" in keys else origin.source)
    figures = {key: _figure(keys[key].value, origin, estimate) for key in FIGURES if key in keys}
    sizes = dict(_sizes(keys["memory_sizes"].value, origin, estimate)) if "memory_sizes" in keys else {}
    if sizes:
        figures = {**_of_label(max(sizes), sizes[max(sizes)], origin), **figures}
    if "memory_gb" in figures and "memory_bytes" not in figures:
        figures = {"memory_bytes": _whole(figures["memory_gb"].value), **figures}
    efficiency = efficiency_of(keys["efficiency"]) if "efficiency" in keys else {}
    lent = _lent(texts["same_chip"], texts["link"], figures) if texts["same_chip"] else {}
    return Datasheet(**texts, figures=figures, memory_sizes=sizes, efficiency={**lent, **efficiency})


def _lent(lender: str, link: str, figures: Mapping[str, SourcedFigure]) -> Constants:
    """The constants of a device of the list that has the same chip."""
    if is_file(lender):  # which might name itself
        raise ArchError(f"same_chip names a device of `archcli devices`, not {quote(lender)}")
    sheet = load_datasheet(lender)
    both = figures, sheet.figures
    return borrowed(sheet.efficiency, sheet.name, same_link=sheet.link == link, figures=both)


def _of_label(
    memory_gb: int, size: SourcedFigure, origin: SourcedFigure | None = None
) -> dict[str, SourcedFigure]:
    """The figures of a memory: its bytes, and GB of the label."""
    return {"memory_bytes": size, "memory_gb": (origin or size)._replace(value=memory_gb)}


def _whole(memory_gb: float) -> SourcedFigure:
    """Bytes of a memory that is known by its label alone."""
    return SourcedFigure(int(memory_gb * 2**30), "C", OF_LABEL)


def _figure(value_or_parts: Any, origin: SourcedFigure, estimate: SourcedFigure) -> SourcedFigure:
    """A figure as stated, with the device's certainty and source where it has none of its own."""
    if isinstance(value_or_parts, dict):
        return SourcedFigure(**{part: node.value for part, node in value_or_parts.items()})
    if isinstance(value_or_parts, str):
        value: Any = scalar(value_or_parts.removeprefix(ESTIMATE))
        return estimate._replace(value=value)
    return origin._replace(value=value_or_parts)


def _sizes(sizes: Any, origin: SourcedFigure, estimate: SourcedFigure) -> Iterator[tuple[int, SourcedFigure]]:
    """The sizes of a memory: bytes by label, {8gb: 8234467328}, or labels alone, [8gb, 16gb]."""
    known = sizes if isinstance(sizes, dict) else {node.value: None for node in sizes}
    for label, node in known.items():
        memory_gb = int(label.removesuffix("gb"))
        yield memory_gb, _whole(memory_gb) if node is None else _figure(node.value, origin, estimate)


def _mistakes(keys: Mapping[str, Node], file: str) -> Iterator[Problem]:
    """What is wrong with the keys of a device."""
    for missing in [key for key in NEEDED if key not in keys]:
        yield Problem(f"missing key {missing}", path=file)
    for key, node in keys.items():
        if key not in KEYS:
            place = node.key or node.place
            hint = "a file of one's own describes one device" if key == "variants" else suggest(key, KEYS)
            yield Problem(f"unknown key {quote(key)}", hint, place.mark())
        elif key in FIGURES:
            yield from _of_figure(key, node)
        elif key == "memory_sizes":
            yield from _of_sizes(node)
        elif key == "efficiency":
            yield from efficiency_mistakes(node)
        else:
            yield from _of_text(key, node)


def _of_sizes(node: Node) -> Iterator[Problem]:
    """What is wrong with the sizes of a memory: {8gb: 8234467328, 16gb: 16878927872}, or [8gb, 16gb]."""
    value: Any = node.value
    if not isinstance(value, dict | list) or not value:
        yield Problem("memory_sizes are such as [8gb, 16gb], or bytes of each", mark=node.where.mark())
        return
    sizes = value.items() if isinstance(value, dict) else [(item.value, None) for item in value]
    for label, size in sizes:
        if not isinstance(label, str) or not SIZE.fullmatch(label):
            yield Problem("memory_sizes has an entry that is no size such as 16gb", mark=node.where.mark())
        elif size is not None:
            yield from _of_figure(f"memory_sizes.{label}", size)


def _of_text(key: str, node: Node) -> Iterator[Problem]:
    allowed = {"kind": KINDS, "certainty": CERTAINTIES}.get(key)
    if allowed is not None and node.value not in allowed:
        yield Problem(f"{key} must be {either(allowed)}, not {shown(node)}", mark=node.where.mark())
    elif not isinstance(node.value, str):
        yield Problem(f"{key} must be text, not {shown(node)}", mark=node.where.mark())


def _of_figure(key: str, node: Node) -> Iterator[Problem]:
    """What is wrong with a figure: a number above 0, or a mapping of value, certainty and source."""
    amount: Any = node.value
    if isinstance(amount, str) and amount.startswith(ESTIMATE):
        amount = scalar(amount.removeprefix(ESTIMATE))
    if not isinstance(amount, dict):
        if not _is_amount(amount):
            yield Problem(f"{key} must be a number above 0, not {shown(node)}", mark=node.where.mark())
        return
    if set(amount) != set(SourcedFigure._fields):
        yield Problem(f"{key} must have value, certainty and source", mark=node.where.mark())
        return
    if not _is_amount(amount["value"].value):
        yield Problem(f"{key}.value must be a number above 0", mark=amount["value"].where.mark())
    for part in ("certainty", "source"):
        yield from _of_text(part, amount[part])


def _is_amount(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= LARGEST
