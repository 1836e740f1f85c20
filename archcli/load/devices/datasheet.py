"""Devices: what GPUs and their like can hold and do, one YAML file each, every figure with its source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from archcli.errors import ArchError, Problem, either, quote, suggest
from archcli.load.devices.efficiency import Constants, efficiency_mistakes, efficiency_of
from archcli.load.devices.names import is_file, resolve
from archcli.load.presets import shipped
from archcli.load.yaml.nodes import Node, shown
from archcli.load.yaml.reader import parse
from archcli.load.yaml.text import decode, read_start, text_of

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
    "l2_mb": "MB of the last cache",
    "link_gb_s": "GB/s to its neighbours, one way",
    "network_gb_s": "GB/s to other machines, one way",
    "devices_per_node": "devices that the link joins",
    "tdp_w": "W",
}
"""Figures of a device, with their units; a rate is dense, and of a GeForce with fp32 accumulation."""

TEXTS = ("name", "vendor", "kind", "architecture", "link", "source", "second_source", "remark")
KINDS = ("gpu", "tpu", "accelerator", "cpu")
CERTAINTIES = ("A", "B", "C")
"""A the maker's own document, B computed from one or read in one place, C estimated."""

OF_LABEL = "the label's GB taken as GiB; what a driver reports is a little less"
MOST_BYTES = 1 << 16
LARGEST = 1e18


class SourcedFigure(NamedTuple):
    """A figure of a device: its value, how certain it is (A, B or C), and where it was read."""

    value: float
    certainty: str
    source: str


@dataclass(frozen=True, slots=True)
class Datasheet:
    """A GPU, TPU, accelerator or CPU: its figures by the keys of `FIGURES`, those that are known.

    `architecture` is what compilers call it: sm_90, gfx942; empty where there is no such name. `efficiency`
    holds the constants that turn counts into an expected time; it is empty where nobody has fitted any.
    """

    name: str
    vendor: str
    kind: str
    architecture: str
    link: str
    second_source: str
    remark: str
    figures: Mapping[str, SourcedFigure]
    efficiency: Constants = field(default_factory=dict)


def folder() -> Path:
    """The folder of devices."""
    return shipped("devices")


def devices() -> list[str]:
    """The names of the devices that come with archcli, in alphabetical order."""
    return sorted(path.stem for path in folder().glob("*.yaml"))


def load_datasheet(name: str) -> Datasheet:
    """The device of this name, or of a user's own YAML file; ArchError with all that is wrong."""
    from_file = is_file(name)
    path = Path(name) if from_file else folder() / f"{resolve(name, devices())}.yaml"
    shown_as = str(path) if from_file else path.name
    return read_datasheet(decode(read_start(path, shown_as, MOST_BYTES), shown_as), shown_as)


def read_datasheet(text: str, name: str) -> Datasheet:
    """The device that a YAML text describes; `name` stands in messages."""
    document = parse(text_of(text, name))
    root = document.root
    if root is None or not isinstance(root.value, dict):
        hint = "it has name, vendor, kind, source, certainty and figures"
        raise ArchError([*document.problems, Problem("a device is a mapping", hint, path=name)])
    problems = [*document.problems, *_mistakes(root, name)]
    if problems:
        raise ArchError(problems)
    return _device(root.value)


def _device(keys: Mapping[str, Node]) -> Datasheet:
    texts = {key: str(keys[key].value) if key in keys else "" for key in TEXTS}
    source, certainty = texts.pop("source"), keys["certainty"].value
    values = {key: keys[key].value for key in FIGURES if key in keys}
    figures = {key: _figure(value, certainty, source) for key, value in values.items()}
    if "memory_gb" in figures and "memory_bytes" not in figures:
        size = int(figures["memory_gb"].value * 2**30)
        figures = {"memory_bytes": SourcedFigure(size, "C", OF_LABEL), **figures}
    efficiency = efficiency_of(keys["efficiency"]) if "efficiency" in keys else {}
    return Datasheet(**texts, figures=figures, efficiency=efficiency)


def _figure(value: Any, certainty: str, source: str) -> SourcedFigure:
    """A figure as stated, with the device's certainty and source where it has none of its own."""
    if isinstance(value, dict):
        return SourcedFigure(**{part: node.value for part, node in value.items()})
    return SourcedFigure(value, certainty, source)


def _mistakes(root: Node, file: str) -> Iterator[Problem]:
    """What is wrong with the keys of a device."""
    keys: dict[str, Node] = root.value
    for missing in [key for key in ("name", "vendor", "kind", "source", "certainty") if key not in keys]:
        yield Problem(f"missing key {missing}", path=file)
    for key, node in keys.items():
        known = (*TEXTS, "certainty", *FIGURES, "efficiency")
        if key not in known:
            place = node.key or node.place
            yield Problem(f"unknown key {quote(key)}", suggest(key, known), place.mark())
        elif key in FIGURES:
            yield from _of_figure(key, node)
        elif key == "efficiency":
            yield from efficiency_mistakes(node)
        else:
            yield from _of_text(key, node)


def _of_text(key: str, node: Node) -> Iterator[Problem]:
    allowed = {"kind": KINDS, "certainty": CERTAINTIES}.get(key)
    if allowed is not None and node.value not in allowed:
        yield Problem(f"{key} must be {either(allowed)}, not {shown(node)}", mark=node.where.mark())
    elif not isinstance(node.value, str):
        yield Problem(f"{key} must be text, not {shown(node)}", mark=node.where.mark())


def _of_figure(key: str, node: Node) -> Iterator[Problem]:
    """What is wrong with a figure: a number above 0, or a mapping of value, certainty and source."""
    value: Any = node.value
    if not isinstance(value, dict):
        if not _is_amount(value):
            yield Problem(f"{key} must be a number above 0, not {shown(node)}", mark=node.where.mark())
        return
    if set(value) != set(SourcedFigure._fields):
        yield Problem(f"{key} must have value, certainty and source", mark=node.where.mark())
        return
    if not _is_amount(value["value"].value):
        yield Problem(f"{key}.value must be a number above 0", mark=value["value"].where.mark())
    for part in ("certainty", "source"):
        yield from _of_text(part, value[part])


def _is_amount(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= LARGEST
