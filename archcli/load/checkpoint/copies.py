"""The files of a folder without an index that make up one checkpoint; copies of it are left out.

A folder may hold the same tensors twice, as in fp16 and fp32, or whole and in shards.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from archcli.errors import ArchError, Problem
from archcli.load.checkpoint.safetensors import TensorEntry, bounded, read_header
from archcli.wording import quote

SHARD = re.compile(r"(.+)-\d{5}-of-\d{5}")
"""A file's name without suffix: shards of one checkpoint share the stem."""

Tensors = dict[str, TensorEntry]


def read_folder(folder: Path, files: Sequence[Path]) -> tuple[Tensors, list[str]]:
    """The tensors of the files, and notes on copies; ArchError where files contradict each other."""
    taken: Tensors = {}
    notes: list[str] = []
    sets = [(names, _merged(parts, folder)) for names, parts in _by_stem(files)]
    for name, tensors in sorted(sets, key=lambda read: (-len(read[1]), read[0])):
        twice = [key for key in tensors if key in taken]
        if not twice:
            taken = _merged((taken, tensors), folder)
            continue
        if len(twice) < len(tensors) or any(taken[key].shape != tensors[key].shape for key in twice):
            raise _in_two_files(twice[0], folder)
        notes.append(
            f"{name} is not read: {taken[twice[0]].path.name} holds the same {len(twice):,} tensors."
        )
    return taken, notes


def _by_stem(files: Iterable[Path]) -> Iterator[tuple[str, list[Tensors]]]:
    """(name, headers) of each file, or of the shards that share a stem."""
    sets: dict[str, list[Path]] = {}
    for file in files:
        match = SHARD.fullmatch(file.stem)
        sets.setdefault(f"{match[1]}-….safetensors" if match else file.name, []).append(file)
    for name, paths in sets.items():
        yield name, [read_header(path) for path in paths]


def _merged(parts: Iterable[Tensors], folder: Path) -> Tensors:
    """The tensors of several files, none of which may be in two of them."""
    whole: Tensors = {}
    for part in parts:
        twice = next((name for name in part if name in whole), None)
        if twice is not None:
            raise _in_two_files(twice, folder)
        whole |= part
        bounded(len(whole), str(folder))
    return whole


def _in_two_files(name: str, folder: Path) -> ArchError:
    what = f"{quote(name)} is in two files, and neither is a copy of the other"
    return ArchError(Problem(what, "give one of the files", path=str(folder)))
