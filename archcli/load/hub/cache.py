"""The cache of huggingface_hub, read without importing that slow library."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

from archcli.load.hub.reference import Reference

CONFIG = "config.json"


class CachedConfig(NamedTuple):
    """A config.json on disk, its commit, and whether it was just downloaded."""

    path: Path
    reference: Reference
    fetched: bool

    @property
    def note(self) -> str:
        """A note on the commit used: a cached branch may be outdated."""
        source = "fetched from the hub" if self.fetched else "from the cache of the hub"
        return f"{CONFIG} of {self.reference}, {source}"


def cached(wanted: Reference) -> CachedConfig | None:
    """The cached config.json of a revision: refs/BRANCH holds the name of a folder in snapshots/."""
    folder = cache_folder() / f"models--{wanted.repo.replace('/', '--')}"
    commit = _ref(folder / "refs" / wanted.revision) or wanted.revision
    path = folder / "snapshots" / commit / CONFIG
    if "/" in commit or not path.is_file():
        return None
    return CachedConfig(path, Reference(wanted.repo, commit), fetched=False)


def _ref(path: Path) -> str:
    """The commit hash in a file of refs/."""
    try:
        commit = path.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""
    return commit if re.fullmatch(r"\w+", commit) else ""


def cache_folder() -> Path:
    """The cache folder of huggingface_hub: HF_HUB_CACHE, else in HF_HOME, else in the user's cache."""
    user_cache = os.environ.get("XDG_CACHE_HOME", str(Path("~/.cache").expanduser()))
    home = _expanded(os.environ.get("HF_HOME", str(Path(user_cache) / "huggingface")))
    default = os.environ.get("HUGGINGFACE_HUB_CACHE", str(Path(home) / "hub"))
    return Path(_expanded(os.environ.get("HF_HUB_CACHE", default)))


def _expanded(path: str) -> str:
    return os.path.expandvars(Path(path).expanduser()) if path else path
