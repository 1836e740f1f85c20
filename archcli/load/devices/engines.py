"""Engines: what servers of models run, one YAML file each, with the constants of their kernels."""

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


def engines() -> list[str]:
    """The names of the engines that come with archcli, in alphabetical order."""
    return sorted(path.stem for path in folder().glob("*.yaml"))


@cache
def load_kernels(name: str) -> KernelEntries:
    """The constants of an engine's kernels. Raises ArchError for an engine that is not known."""
    if name not in engines():
        raise ArchError(f"no engine {quote(name)}", suggest(name, engines()))
    shown_as = f"{name}.yaml"
    document = parse(text_of(decode(read_start(folder() / shown_as, shown_as), shown_as), shown_as))
    if document.problems or document.root is None:
        raise ArchError(document.problems)
    kernels: KernelEntries = plain(document.root).get("kernels", {})
    return kernels
