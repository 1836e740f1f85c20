"""Find model files of this machine: GGUF and folders of safetensors, in a folder or in caches.

Only headers are read. A damaged or incomplete file is left out, with the reason.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from archcli.errors import ArchError, Problem
from archcli.load.checkpoint.checkpoint import CONFIG, INDEX, SINGLE, read_checkpoint
from archcli.load.gguf.header import model_name, parts_of, read_whole
from archcli.load.gguf.stored import tensor_bytes
from archcli.load.hub.cache import cache_folder
from archcli.load.yaml.text import open_regular

GGUF, SAFETENSORS = ".gguf", ".safetensors"
REPOSITORY = "models--"
"""Prefix of a model's folder in the hub's cache: models--org--name."""
OLLAMA_SERVICE = Path("/usr/share/ollama/.ollama/models")
"""Ollama's models when it runs as a Linux service."""
OLLAMA_MODEL = "application/vnd.ollama.image.model"
OTHER_TYPES = {"adapter": "an adapter", "mmproj": "a projector of images", "imatrix": "an importance matrix"}
"""`general.type` of GGUF files that hold no model."""
MOST_MANIFEST = 1 << 20
"""Bytes of a manifest that are read: manifests are short, but any file may lie there."""


class ModelFile(NamedTuple):
    """A GGUF file, its first part, or a folder of safetensors; `load` takes the path.

    name: a repository of the hub, a tag of Ollama, or the name of the file or folder.
    n_bytes: of all its parts.
    """

    path: Path
    name: str
    n_bytes: int


class SkippedFile(NamedTuple):
    """A model file that is left out, and why."""

    path: Path
    reason: str


class ModelFiles(NamedTuple):
    """The models, largest first, and the files that are left out."""

    models: tuple[ModelFile, ...] = ()
    skipped: tuple[SkippedFile, ...] = ()


OnFile = Callable[[Path], None]
"""Called before a file is read, to show progress."""


def model_files(folder: Path, on_file: OnFile | None = None) -> ModelFiles:
    """The models below a folder, without those in hidden folders of it.

    Raises ArchError where it is no folder or cannot be read.
    """
    try:
        next(folder.iterdir(), None)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise ArchError(Problem(f"no folder: {reason or error}", path=str(folder))) from None
    return _collected([(path, "") for path in _candidates(folder)], on_file)


def cached_model_files(on_file: OnFile | None = None) -> ModelFiles:
    """The models in the caches of the hub, llama.cpp, LM Studio and Ollama."""
    in_caches = [(path, "") for folder in _cache_folders() if folder.is_dir() for path in _candidates(folder)]
    return _collected([*in_caches, *_of_ollama()], on_file)


def _cache_folders() -> list[Path]:
    """Folders in which programs keep models; some may not exist."""
    home, user_cache = Path.home(), Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    llama_cpp = Path(os.environ.get("LLAMA_CACHE") or user_cache / "llama.cpp")
    on_a_mac = home / "Library" / "Caches" / "llama.cpp"
    lm_studio = (home / ".lmstudio" / "models", home / ".cache" / "lm-studio" / "models")
    return [cache_folder(), llama_cpp, on_a_mac, *lm_studio]


def _candidates(top: Path) -> Iterator[Path]:
    """GGUF files (of a split one the first part), and folders with config.json and safetensors."""
    for folder, below, files in os.walk(top):
        below[:] = sorted(name for name in below if not name.startswith("."))
        if CONFIG in files and any(name.endswith(SAFETENSORS) for name in files):
            yield Path(folder)
        begun: set[str] = set()
        for name in sorted(name for name in files if name.endswith(GGUF) and not name.startswith(".")):
            path = Path(folder, name)
            # parts of one model have its first part's name in common
            if (first := parts_of(path)[0].name) not in begun:
                begun.add(first)
                yield path


def _of_ollama() -> Iterator[tuple[Path, str]]:
    """The files of Ollama's models, and their tags, by its manifests.

    manifests/registry.ollama.ai/library/llama3.1/8b names a file of blobs/.
    """
    variable = os.environ.get("OLLAMA_MODELS")
    for top in [Path(variable)] if variable else [Path.home() / ".ollama" / "models", OLLAMA_SERVICE]:
        for folder, below, files in os.walk(top / "manifests"):
            below.sort()
            for tag in sorted(files):
                digest = _digest(Path(folder, tag))
                # a manifest may be a stranger's: a digest with folders could lead out of the blobs
                if digest and "/" not in digest and "\\" not in digest:
                    yield top / "blobs" / digest.replace(":", "-"), f"{Path(folder).name}:{tag}"


def _digest(manifest: Path) -> str:
    """The digest of a manifest's model; empty for another file, or a manifest without a model."""
    models = (layer for layer in _layers(manifest) if layer.get("mediaType") == OLLAMA_MODEL)
    return str(next(models, {}).get("digest", ""))


def _layers(manifest: Path) -> list[dict[str, Any]]:
    try:
        with open_regular(manifest) as file:
            return [dict(layer) for layer in json.loads(file.read(MOST_MANIFEST))["layers"]]
    # not readable, no JSON, or not in this form
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return []


def _collected(candidates: Sequence[tuple[Path, str]], on_file: OnFile | None) -> ModelFiles:
    """The models at these (path, name); one that several links lead to counts once."""
    models: dict[Path, ModelFile] = {}
    skipped: dict[Path, SkippedFile] = {}
    for path, name in candidates:
        identity = _identity(path)
        if identity in models or identity in skipped:
            continue
        if on_file is not None:
            on_file(path)
        try:
            n_bytes = _safetensors_bytes(path) if path.is_dir() else gguf_bytes(path)
            models[identity] = ModelFile(path, name or _name(path), n_bytes)
        except ArchError as error:
            skipped[identity] = SkippedFile(path, error.problems[0].what)
        except OSError as error:
            skipped[identity] = SkippedFile(path, f"cannot be read: {error.strerror or error}")
    in_order = sorted(models.values(), key=lambda model: (-model.n_bytes, model.name, str(model.path)))
    return ModelFiles(tuple(in_order), tuple(skipped.values()))


def _identity(path: Path) -> Path:
    """The file behind links; for a folder that of its weights, which snapshots of the hub share."""
    weights = next((path / name for name in (SINGLE, INDEX) if (path / name).is_file()), path)
    try:
        return weights.resolve()
    except (OSError, RuntimeError):  # a link to itself
        return weights


def _name(path: Path) -> str:
    """The repository of a file in the hub's cache, else the name of the file or folder."""
    file_name = path.name if path.is_dir() else model_name(path)
    for folder in path.parents:
        if folder.name.startswith(REPOSITORY):
            repository = folder.name.removeprefix(REPOSITORY).replace("--", "/")
            return repository if path.is_dir() else f"{repository} {file_name}"
    return file_name


def gguf_bytes(path: Path) -> int:
    """Bytes of a GGUF file with all its parts; ArchError where it is damaged, cut short or no model."""
    header, parts = read_whole(path), parts_of(path)
    kind = header.metadata.get("general.type", "model")
    if kind != "model" or header.metadata.get("general.architecture") == "clip":
        what = OTHER_TYPES.get(str(kind), OTHER_TYPES["mmproj"] if kind == "model" else f"of the type {kind}")
        raise ArchError(Problem(f"{what}, no model of its own", path=str(path)))
    if not header.tensors:
        raise ArchError(Problem("it holds no tensors", path=str(path)))
    n_bytes = sum(part.stat().st_size for part in parts)
    missing = header.n_bytes + tensor_bytes(header) - n_bytes
    if missing > 0:
        raise ArchError(Problem(f"the file is cut short: {missing:,} bytes are missing", path=str(path)))
    return n_bytes


def _safetensors_bytes(folder: Path) -> int:
    """Bytes of a folder's tensors and their headers; ArchError where one is damaged or missing."""
    checkpoint = read_checkpoint(str(folder))
    stored = [tensor for tensor in checkpoint.tensors.values() if tensor is not None]
    if len(stored) < len(checkpoint.tensors):
        raise ArchError(Problem(checkpoint.notes[0], path=str(folder)))
    if not stored:
        raise ArchError(Problem("it holds no tensors", path=str(folder)))
    return sum(path.stat().st_size for path in {tensor.path for tensor in stored})
