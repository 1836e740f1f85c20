"""The models that come with archcli: their names, their YAML, and the index of their shapes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from archcli.errors import ArchError, Problem
from archcli.wording import closest, either, quote

WORKLOADS = "workloads"
LONGEST_NAME = 100


def shipped(name: str) -> Path:
    """A folder of data inside the installed package, or beside it in a checkout."""
    package = Path(__file__).parents[1]
    inside = package / name
    return inside if inside.is_dir() else package.parent / name


def folder() -> Path:
    """The folder of presets."""
    return shipped("presets")


def presets() -> list[str]:
    """The names of the models that come with archcli, in alphabetical order."""
    return sorted(path.stem for path in folder().glob("*.yaml"))


def surveyed_presets(*, every: bool = False) -> list[str]:
    """The presets that a survey takes: one of each series and generation, or all."""
    return [record["name"] for record in presets_index() if every or not record["sibling_of"]]


def workloads() -> list[str]:
    """The names of workloads that papers measured; loaded like presets, but not listed."""
    return sorted(path.stem for path in (folder() / WORKLOADS).glob("*.yaml"))


def preset_file(name: str) -> Path:
    """The file of a preset or workload, which may not exist; never outside the folder."""
    bare = name.replace("-", "").replace(".", "").replace("_", "")
    if len(name) > LONGEST_NAME or not name.isascii() or not bare.isalnum():
        return folder() / ".yaml"
    return folder() / WORKLOADS / f"{name}.yaml" if name in workloads() else folder() / f"{name}.yaml"


def preset_text(name: str) -> str:
    """The YAML of a preset, or of a workload."""
    file = preset_file(name)
    if not file.is_file():
        close = closest(name, [*presets(), *workloads()])
        hint = f"did you mean {either(close)}?" if close else "`archcli list` names the presets"
        raise ArchError(Problem(f"no preset {quote(name)}", hint))
    return file.read_text(encoding="utf-8")


def evidence_index() -> Sequence[Mapping[str, Any]]:
    """Of every preset that stands for its series and generation, the values that rules judge others by."""
    return [
        {"name": record["name"], "released": record["released"], **record["judged"]}
        for record in presets_index()
        if not record["sibling_of"]
    ]


@cache
def presets_index() -> Sequence[dict[str, Any]]:
    """The survey record of every preset, a JSON file shipped with the presets.

    `sibling_of` names the preset that stands for its series and generation; `judged` holds what rules judge.
    """
    path = folder() / "index.json"
    records: Sequence[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []
    return records
