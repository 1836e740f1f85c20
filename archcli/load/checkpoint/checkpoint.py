"""The names, dtypes and shapes of a checkpoint's tensors; their data are not read here.

A checkpoint is a file, an index of shards, a folder, or a repository of the hub. A folder without an index
may hold the same tensors twice, as in fp16 and fp32, or whole and in shards: one of them is read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from archcli.errors import ArchError, Problem, install, quote, shorten
from archcli.load.checkpoint.safetensors import (
    MOST_AXES,
    MOST_HEADER,
    TensorEntry,
    bounded,
    parsed,
    read_header,
    whole,
)
from archcli.load.yaml.text import MOST_JSON, open_regular, refuse_beyond

SHARD = re.compile(r"(.+)-\d{5}-of-\d{5}")
"""A file's name without suffix; shards of one checkpoint share the stem."""

Tensors = dict[str, TensorEntry]


def read_folder(folder: Path, files: Sequence[Path]) -> tuple[Tensors, list[str]]:
    """The tensors of the files, and notes on copies; ArchError where files contradict each other."""
    taken: Tensors = {}
    notes: list[str] = []
    sets = [(names, _merged(parts, folder)) for names, parts in _by_stem(files)]
    # the fullest set first, so that a smaller copy is recognised as one
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


DESCRIBING = ("config.json", "params.json", "adapter_config.json")
"""Files that describe the architecture of the tensors beside them."""
SINGLE, INDEX, CONFIG = "model.safetensors", "model.safetensors.index.json", "config.json"
# characters of a user's text that a message quotes
LONGEST = 400
REPOSITORY = re.compile(r"(hf://)?[\w.-]+/[\w.-]+(@[\w./-]+)?", re.ASCII)
PICKLES = {".bin", ".pt", ".pth", ".ckpt"}
FILES = {".safetensors", ".json", ".gguf", *PICKLES}


class Checkpoint(NamedTuple):
    """The tensors of a checkpoint by name; None for a tensor whose file is missing.

    `config` is the data of the config.json beside it, or None.
    """

    source: str
    tensors: dict[str, TensorEntry | None]
    config: Any = None
    notes: tuple[str, ...] = ()

    @property
    def shapes(self) -> dict[str, tuple[int, ...] | None]:
        """The shape of each tensor, where it is known."""
        return {name: None if stored is None else stored.shape for name, stored in self.tensors.items()}


def read_checkpoint(source: str) -> Checkpoint:
    """The safetensors checkpoint at a path or in a hub repository; ArchError for other formats."""
    path = Path(source)
    if _is_safely(path.is_dir):
        return _folder(path)
    if _is_safely(path.is_file):
        config = _config(path.parent)
        if path.suffix == ".json":
            return _index(path, config)
        return Checkpoint(source, dict(read_header(_checked_suffix(path))), config)
    is_path = path.suffix in FILES or ("://" not in source and _is_safely(path.parent.is_dir))
    if REPOSITORY.fullmatch(source) and not is_path:
        return _hub(source)
    hint = "give a .safetensors file, a folder that holds one, or org/name of the hub"
    raise ArchError(Problem(f"no file or folder {quote(source, LONGEST)}", hint))


def read_headers(source: str) -> Checkpoint:
    """A checkpoint by itself: a .safetensors file, an index of shards, or a folder of them.

    A note says whether the architecture is described beside it.
    """
    checkpoint = read_checkpoint(source)
    path = Path(source)
    folder = path if path.is_dir() else path.parent
    config = next((name for name in DESCRIBING if (folder / name).is_file()), None)
    note = "no config.json is beside it: tensors are listed, and what computes with them is not known."
    if config is not None:
        note = f"{config} is beside it: give the folder for the architecture."
    sizes = () if None not in checkpoint.tensors.values() else _stated_bytes(Path(checkpoint.source))
    return checkpoint._replace(notes=(note, *checkpoint.notes, *sizes))


def _stated_bytes(index: Path) -> tuple[str, ...]:
    """A note on the bytes that an index states of all its shards."""
    metadata = parsed(_read_bounded(index, MOST_HEADER), str(index)).get("metadata")
    size = metadata.get("total_size") if isinstance(metadata, dict) else None
    return (f"the index states {size:,} bytes in all.",) if whole([size], 1) else ()


def _is_safely(ask: Any) -> bool:
    """Whether the question about a path is answered yes; False for a path that the system refuses."""
    try:
        return bool(ask())
    except (OSError, ValueError):  # a name too long, or with a NUL in it
        return False


def _checked_suffix(path: Path) -> Path:
    if path.suffix != ".safetensors":
        is_pickle = path.suffix in PICKLES
        hint = "pickles run code and are not read" if is_pickle else "its name ends in .safetensors"
        raise ArchError(Problem("not a safetensors file", hint, path=str(path)))
    return path


def _folder(folder: Path) -> Checkpoint:
    """The index of a folder, else its model.safetensors, else all its .safetensors as shards."""
    if (folder / INDEX).is_file():
        return _index(folder / INDEX, _config(folder))
    files = [folder / SINGLE] if (folder / SINGLE).is_file() else sorted(folder.glob("*.safetensors"))
    if not files:
        hint = "pickles (.bin, .pt) run code and are not read"
        raise ArchError(Problem("a folder without .safetensors", hint, path=str(folder)))
    tensors, notes = read_folder(folder, files)
    return Checkpoint(str(folder), dict(tensors), _config(folder), tuple(notes))


def _index(path: Path, config: Any) -> Checkpoint:
    """The tensors of an index; those whose shard is missing have no shape."""
    files = parsed(_read_bounded(path, MOST_HEADER), str(path)).get("weight_map")
    if not isinstance(files, dict) or not all(isinstance(file, str) for file in files.values()):
        what = "no index of a checkpoint: weight_map is missing"
        raise ArchError(Problem(what, "it maps each tensor to its file", path=str(path)))
    shards: dict[str, dict[str, TensorEntry]] = {}
    for file in sorted(set(files.values())):
        # an index is a stranger's: a name with folders could lead out of the checkpoint's own
        if Path(file).name != file or not file.endswith(".safetensors"):
            what = f"the index names a file {quote(file)} that is no .safetensors beside it"
            raise ArchError(Problem(what, path=str(path)))
        shards[file] = read_header(path.with_name(file)) if path.with_name(file).is_file() else {}
        bounded(sum(map(len, shards.values())), str(path))
    tensors = {name: shards[file].get(name) for name, file in files.items()}
    lost = next((name for name, file in files.items() if shards[file] and name not in shards[file]), None)
    if lost is not None:
        what = f"{quote(files[lost])} does not hold {quote(lost)}, as the index says"
        raise ArchError(Problem(what, path=str(path)))
    absent = sum(not shard for shard in shards.values())
    note = f"{absent} of {len(shards)} shards are not here: of their tensors the names alone are compared."
    return Checkpoint(str(path), tensors, config, (note,) if absent else ())


def _config(folder: Path) -> Any:
    """The data of the config.json in a folder, or None."""
    path = folder / CONFIG
    return parsed(_read_bounded(path, MOST_JSON), str(path)) if path.is_file() else None


def _read_bounded(path: Path, most: int) -> bytes:
    refuse_beyond(path, str(path))
    try:
        with open_regular(path) as file:
            data = file.read(most + 1)
    except OSError as error:
        raise ArchError(Problem(f"cannot be read: {error.strerror or error}", path=str(path))) from None
    if len(data) > most:
        raise ArchError(Problem(f"larger than {most:,} bytes", path=str(path)))
    return data


def _hub(source: str) -> Checkpoint:
    """The safetensors headers of a hub repository; no tensor is downloaded."""
    name, _, revision = source.removeprefix("hf://").partition("@")
    # the words that huggingface_hub takes for true (ENV_VARS_TRUE_VALUES)
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in {"1", "ON", "YES", "TRUE"}:
        what = f"{quote(source, LONGEST)} is on the hub, and HF_HUB_OFFLINE is set"
        raise ArchError(Problem(what, "give the path of a folder"))
    try:
        from huggingface_hub import get_safetensors_metadata
    except ModuleNotFoundError:
        what = f"{quote(source, LONGEST)} needs huggingface_hub, which is not installed"
        hint = f"give the path of a folder, or {install('huggingface_hub')}"
        raise ArchError(Problem(what, hint)) from None
    try:
        metadata = get_safetensors_metadata(name, revision=revision or None)
    # the library raises errors of its HTTP client, of its own, of JSON and of the system
    except Exception as error:  # noqa: BLE001
        reason = shorten(str(error).strip().partition("\n")[0] or type(error).__name__, LONGEST)
        what = f"no folder {quote(source, LONGEST)}, and the hub cannot tell: {reason}"
        raise ArchError(Problem(what)) from None
    tensors: dict[str, TensorEntry | None] = dict.fromkeys(metadata.weight_map)
    for file, shard in metadata.files_metadata.items():
        for tensor, info in shard.tensors.items():
            if not whole(info.shape, MOST_AXES):
                what = f"tensor {quote(tensor)} has no shape that can be read"
                raise ArchError(Problem(what, path=source))
            tensors[tensor] = TensorEntry(info.dtype, tuple(info.shape), Path(file), *info.data_offsets)
    return Checkpoint(source, tensors)
