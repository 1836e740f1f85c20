"""Engines: what servers of models do, one YAML file each, and the constants of their kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from archcli.errors import ArchError, quote, suggest
from archcli.load.presets import shipped
from archcli.load.yaml.nodes import plain
from archcli.load.yaml.reader import parse
from archcli.load.yaml.text import decode, read_start, text_of

KernelEntries = Mapping[str, Mapping[str, Sequence[Mapping[str, Any]]]]
"""Constants of kernels by device and by operation, such as attention_prefill."""


def folder() -> Path:
    """The folder of engines."""
    return shipped("engines")


def kernels_folder() -> Path:
    """The folder of the constants of kernels."""
    return folder() / "kernels"


def engines() -> list[str]:
    """The names of the engines that come with archcli, in alphabetical order."""
    return sorted(path.stem for path in folder().glob("*.yaml"))


def measured_engines() -> list[str]:
    """The names of engines and libraries whose kernels were measured."""
    return sorted(path.stem for path in kernels_folder().glob("*.yaml"))


@cache
def load_engine(name: str) -> Mapping[str, Any]:
    """The facts of an engine by their names. Raises ArchError for an engine that is not known."""
    if name not in engines():
        raise ArchError(f"no engine {quote(name)}", suggest(name, engines()))
    return _read(folder() / f"{name}.yaml")


@cache
def load_kernels(name: str) -> KernelEntries:
    """The constants of an engine's kernels. Raises ArchError where none were measured."""
    if name not in measured_engines():
        raise ArchError(f"no kernels of engine {quote(name)}", suggest(name, measured_engines()))
    kernels: KernelEntries = _read(kernels_folder() / f"{name}.yaml").get("kernels", {})
    return kernels


def _read(path: Path) -> Mapping[str, Any]:
    document = parse(text_of(decode(read_start(path, path.name), path.name), path.name))
    if document.problems or document.root is None:
        raise ArchError(document.problems)
    facts: Mapping[str, Any] = plain(document.root)
    return facts
