"""The models that come with archcli: their names, their YAML, and the index of their shapes."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from archcli.errors import ArchError, Problem, closest, either, quote

WORKLOADS = "workloads"
# characters; a longer text is no name of a preset, and is not searched for near ones
LONGEST_NAME = 100
OF_EVERY_PRESET = ("name", "sibling_of", "judged")
"""What a record of the index holds beside the columns of a survey."""
NUMBERS = re.compile(r"\d+(?:\.\d+)?")
SIGNS = re.compile(r"[-_:\s]+")
"""What stands between the words of a name."""
SHORTEST = 4
"""Fewer letters and digits begin too many names."""

VARIANT = re.compile(
    r"meta|nvidia|instruct|chat|it|base|pt|hf|gguf|awq|gptq|mlx|bnb|bf16|fp16|fp8|nvfp4|int[48]"
    r"|w\d+a\d+|[48]bit|q\d+|[ksml0]|latest|\d{4}|qat|thinking|preview|exp"
)
"""Words by which names of one architecture differ: tuning, storage, date."""
STORED = re.compile(
    r"meta|nvidia|hf|gguf|awq|gptq|mlx|bnb|bf16|fp16|fp8|nvfp4|int[48]|w\d+a\d+|[48]bit|q\d+|[ksml0]|latest"
)
"""Those of them that say how weights are stored, and by whom."""
RELEASE = re.compile(r"thinking|preview|exp|base|\d{4}")
"""Those of them that tell a release of a size, which may have another context: Qwen3-4B-Instruct-2507."""


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
    return [record["name"] for record in preset_records() if every or not record["sibling_of"]]


def workloads() -> list[str]:
    """The names of workloads that papers measured; loaded like presets, but not listed."""
    return sorted(path.stem for path in (folder() / WORKLOADS).glob("*.yaml"))


def letters(name: str) -> str:
    """The letters, digits and other signs of a name, small: what spellings of one name share."""
    return re.sub(r"[-_.: ]", "", name.lower())


def alike(name: str) -> list[str]:
    """The presets that a name of another catalogue stands for, else names near it.

    llama3.1:8b and meta-llama/Llama-3.1-8B-Instruct@main are llama-3.1-8b.
    """
    near = same_release(name) or same_preset(name) or _beginning(plain_name(name))
    if near:
        return near
    wanted = repository_name(name).replace(":", "-")
    begins = [preset for preset in presets() if letters(wanted).startswith(letters(preset))]
    if begins:  # llama-3.1-8b of Llama-3.1-8B-Instruktion
        return [max(begins, key=len)]
    close = closest(wanted, [*presets(), *workloads()])
    return [preset for preset in close if _numbers_agree(wanted, preset) and _begin_alike(wanted, preset)]


def _begin_alike(name: str, preset: str) -> bool:
    """Whether a name may be a preset's, misspelt: of the same first letter, and not twice as long."""
    return name[:1].lower() == preset[0] and len(name) < 2 * len(preset)


def _numbers_agree(name: str, preset: str) -> bool:
    """Whether a preset has one of the numbers of a name that has any: gpt-4 is not near to gpt-1."""
    numbers = set(NUMBERS.findall(name))
    return not numbers or not numbers.isdisjoint(NUMBERS.findall(preset))


def _beginning(plain: str) -> list[str]:
    """At most three presets whose name begins so, the newest first: llama-4-scout of llama."""
    if not SHORTEST <= len(plain) <= LONGEST_NAME:
        return []
    begin = [preset for preset in presets() if plain_name(preset).startswith(plain)]
    if len(begin) > 1:
        released = {record["name"]: str(record["released"] or "") for record in presets_index()}
        begin.sort(key=lambda preset: released.get(preset, ""), reverse=True)
    return begin[:3]


def same_preset(name: str) -> list[str]:
    """The presets whose name differs in signs, tuning and storage alone."""
    plain = plain_name(name) if len(name) <= LONGEST_NAME else ""
    return [preset for preset in presets() if plain and plain_name(preset) == plain]


def same_release(name: str) -> list[str]:
    """The presets of the same release, whose names differ in signs, tuning and storage alone.

    Qwen/Qwen3-4B-Instruct-2507 is not qwen3-4b. Mistral-Nemo-Instruct-2407 is mistral-nemo-12b, for the
    repository that this names as its source has the date, too.
    """
    parts = name_words(name)
    variants = {preset: set(filter(VARIANT.fullmatch, name_words(preset))) for preset in same_preset(name)}
    same = [preset for preset in variants if variants[preset] <= parts and has_release(preset, parts)]
    most = max((len(variants[preset]) for preset in same), default=0)
    return [preset for preset in same if len(variants[preset]) == most]


def has_release(preset: str, parts: Collection[str]) -> bool:
    """Whether the words that tell a release are in a preset's name, or in its source's."""
    release = set(filter(RELEASE.fullmatch, parts))
    return release <= name_words(preset) or release <= name_words(_source(preset))


def _source(preset: str) -> str:
    """The repository of the hub that a preset names as its source; else empty."""
    source = next((record["source"] for record in presets_index() if record["name"] == preset), "")
    return "/".join(source.split("/")[-2:]) if "huggingface.co" in source else ""


def name_words(name: str) -> set[str]:
    """The words of a name, without what stands before a slash: {qwen3, 4b, instruct, 2507}."""
    return {word for word in SIGNS.split(repository_name(name).lower()) if word}


def repository_name(name: str) -> str:
    """The name in `hf://org/name@revision`; what is longer is a path, and stays as it is."""
    plain = name.removeprefix("hf://").partition("@")[0].removesuffix(".yaml")
    return plain.partition("/")[2] if plain.count("/") == 1 else plain


def plain_name(name: str) -> str:
    """A name without what says how a model was tuned or stored, and without signs between its words."""
    parts = SIGNS.split(repository_name(name).lower())
    return "".join(word for word in parts if not VARIANT.fullmatch(word)).replace(".", "")


def preset_file(name: str) -> Path:
    """The file of a preset or workload, which may not exist; never outside the folder."""
    bare = name.replace("-", "").replace(".", "").replace("_", "")
    # what is left of `../x` has a slash, and of `..` nothing: neither is alphanumeric, so no name leaves the
    # folder
    if len(name) > LONGEST_NAME or not name.isascii() or not bare.isalnum():
        # no preset has an empty name, so this file is never there
        return folder() / ".yaml"
    return folder() / WORKLOADS / f"{name}.yaml" if name in workloads() else folder() / f"{name}.yaml"


def preset_text(name: str) -> str:
    """The YAML of a preset, or of a workload."""
    file = preset_file(name)
    if not file.is_file():
        close = alike(name)
        hint = f"did you mean {either(close)}?" if close else "`archcli list` names the presets"
        raise ArchError(Problem(f"no preset {quote(name)}", hint))
    return file.read_text(encoding="utf-8")


def evidence_index(columns: Collection[str] = ()) -> Sequence[Mapping[str, Any]]:
    """The values that rules compare with, of one preset of each series and generation.

    Raises ArchError where the index lacks a column.
    """
    records = preset_records(("released",))
    _require((record["judged"] for record in records), columns)
    return [
        {"name": record["name"], "released": record["released"], **record["judged"]}
        for record in records
        if not record["sibling_of"]
    ]


def preset_records(columns: Collection[str] = ()) -> Sequence[dict[str, Any]]:
    """The records of `presets_index`. Raises ArchError where one lacks a column."""
    records = presets_index()
    _require(records, {*OF_EVERY_PRESET, *columns})
    return records


def _require(records: Iterable[Mapping[str, Any]], columns: Collection[str]) -> None:
    missing = sorted({column for record in records for column in columns if column not in record})
    if missing:
        what = f"presets/index.json lacks {', '.join(missing)}"
        raise ArchError(what, "in a checkout of archcli, pytest -n0 --renew tests/rules writes it anew")


@cache
def presets_index() -> Sequence[dict[str, Any]]:
    """The survey record of every preset, a JSON file shipped with the presets.

    `sibling_of` names the preset that stands for its series and generation; `judged` holds what rules judge.
    """
    path = folder() / "index.json"
    records: Sequence[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []
    return records
