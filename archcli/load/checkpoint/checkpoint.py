"""Checkpoints: the name, dtype and shape of every tensor of a file, an index of shards, a folder, or a repository of the hub.

No tensor's data is read here.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, NamedTuple

from archcli.errors import ArchError, Problem
from archcli.load.checkpoint.safetensors import MOST_AXES, TensorEntry, parsed, read_header, whole
from archcli.load.yaml.text import MOST_BYTES
from archcli.wording import quoted, shorten

SINGLE, INDEX, CONFIG = "model.safetensors", "model.safetensors.index.json", "config.json"
MOST_INDEX = 100_000_000
LONGEST = 400
REPOSITORY = re.compile(r"(hf://)?[\w.-]+/[\w.-]+(@[\w./-]+)?", re.ASCII)
FILES = {".safetensors", ".json", ".bin", ".pt", ".pth", ".ckpt", ".gguf"}


class Checkpoint(NamedTuple):
    """What a checkpoint holds: a tensor whose file is not there is None. `config` is the config.json beside it, or None."""

    source: str
    tensors: dict[str, TensorEntry | None]
    config: Any = None
    notes: tuple[str, ...] = ()

    @property
    def shapes(self) -> dict[str, tuple[int, ...] | None]:
        """The shape of each tensor, where it is known."""
        return {name: None if stored is None else stored.shape for name, stored in self.tensors.items()}


def read_checkpoint(source: str) -> Checkpoint:
    """What is stored at a path, or in a repository of the hub; ArchError for what is no checkpoint of safetensors."""
    path = Path(source)
    if _is(path.is_dir):
        return _folder(path)
    if _is(path.is_file):
        beside = _config(path.parent)
        return (
            _index(path, beside)
            if path.suffix == ".json"
            else Checkpoint(source, dict(read_header(_safe(path))), beside)
        )
    if (
        REPOSITORY.fullmatch(source)
        and path.suffix not in FILES
        and not (_is(path.parent.is_dir) and "://" not in source)
    ):
        return _hub(source)
    raise ArchError(
        Problem(
            f"no file or folder {quoted(source, LONGEST)}",
            "give a .safetensors file, a folder that holds one, or org/name of the hub",
        )
    )


def _is(ask: Any) -> bool:
    try:
        return bool(ask())
    except (OSError, ValueError):  # a name too long, or with a NUL in it
        return False


def _safe(path: Path) -> Path:
    if path.suffix != ".safetensors":
        hint = (
            "pickles run code and are not read"
            if path.suffix in {".bin", ".pt", ".pth", ".ckpt"}
            else "its name ends in .safetensors"
        )
        raise ArchError(Problem("not a safetensors file", hint, path=str(path)))
    return path


def _folder(folder: Path) -> Checkpoint:
    """The index of a folder, else its model.safetensors, else every .safetensors in it, which must then be shards of one."""
    if (folder / INDEX).is_file():
        return _index(folder / INDEX, _config(folder))
    files = [folder / SINGLE] if (folder / SINGLE).is_file() else sorted(folder.glob("*.safetensors"))
    if not files:
        raise ArchError(
            Problem(
                "a folder without .safetensors",
                "pickles (.bin, .pt) run code and are not read",
                path=str(folder),
            )
        )
    tensors: dict[str, TensorEntry | None] = {}
    for file in files:
        found = read_header(file)
        twice = next((name for name in found if name in tensors), None)
        if twice is not None:
            raise ArchError(
                Problem(f"{quoted(twice)} is in two files", "give one of the files", path=str(folder))
            )
        tensors |= found
    return Checkpoint(str(folder), tensors, _config(folder))


def _index(path: Path, config: Any) -> Checkpoint:
    """The names of an index, and the shapes of those whose shard is beside it."""
    files = parsed(_bytes(path, MOST_INDEX), str(path)).get("weight_map")
    if not isinstance(files, dict) or not all(isinstance(file, str) for file in files.values()):
        raise ArchError(
            Problem(
                "no index of a checkpoint: weight_map is missing",
                "it maps each tensor to its file",
                path=str(path),
            )
        )
    shards: dict[str, dict[str, TensorEntry]] = {}
    for file in sorted(set(files.values())):
        if Path(file).name != file or not file.endswith(".safetensors"):
            raise ArchError(
                Problem(
                    f"the index names a file {quoted(file)} that is no .safetensors beside it", path=str(path)
                )
            )
        shards[file] = read_header(path.with_name(file)) if path.with_name(file).is_file() else {}
    tensors = {name: shards[file].get(name) for name, file in files.items()}
    lost = next((name for name, file in files.items() if shards[file] and name not in shards[file]), None)
    if lost is not None:
        raise ArchError(
            Problem(f"{quoted(files[lost])} does not hold {quoted(lost)}, as the index says", path=str(path))
        )
    absent = sum(not held for held in shards.values())
    note = (
        (f"{absent} of {len(shards)} shards are not here: of their tensors the names alone are compared.",)
        if absent
        else ()
    )
    return Checkpoint(str(path), tensors, config, note)


def _config(folder: Path) -> Any:
    """The data of the config.json in a folder, or None."""
    path = folder / CONFIG
    return parsed(_bytes(path, MOST_BYTES), str(path)) if path.is_file() else None


def _bytes(path: Path, most: int) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(most + 1)
    except OSError as error:
        raise ArchError(Problem(f"cannot be read: {error.strerror or error}", path=str(path))) from None
    if len(data) > most:
        raise ArchError(Problem(f"larger than {most:,} bytes", path=str(path)))
    return data


def _hub(source: str) -> Checkpoint:
    """The headers of a repository, of which a few hundred kB are fetched and no tensor."""
    name, _, revision = source.removeprefix("hf://").partition("@")
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in {"1", "ON", "YES", "TRUE"}:
        raise ArchError(
            Problem(
                f"{quoted(source, LONGEST)} is on the hub, and HF_HUB_OFFLINE is set",
                "give the path of a folder",
            )
        )
    try:
        from huggingface_hub import get_safetensors_metadata
    except ModuleNotFoundError:
        hint = "pip install 'archcli[hf]' adds it, or give the path of a folder"
        raise ArchError(
            Problem(f"{quoted(source, LONGEST)} needs huggingface_hub, which is not installed", hint)
        ) from None
    try:
        found = get_safetensors_metadata(name, revision=revision or None)
    except Exception as error:  # noqa: BLE001
        said = str(error).strip().partition("\n")[0] or type(error).__name__
        raise ArchError(
            Problem(f"no folder {quoted(source, LONGEST)}, and the hub cannot tell: {shorten(said, LONGEST)}")
        ) from None
    tensors: dict[str, TensorEntry | None] = dict.fromkeys(found.weight_map)
    for file, held in found.files_metadata.items():
        for tensor, info in held.tensors.items():
            if not whole(info.shape, MOST_AXES):
                raise ArchError(
                    Problem(f"tensor {quoted(tensor)} has no shape that can be read", path=source)
                )
            tensors[tensor] = TensorEntry(info.dtype, tuple(info.shape), Path(file), *info.data_offsets)
    return Checkpoint(source, tensors)
