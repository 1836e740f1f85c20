"""The cache of the hub's library, read without it: it takes longer to import than an answer takes."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

from archcli.load.hub.reference import Reference

CONFIG = "config.json"


class CachedConfig(NamedTuple):
    """A config.json on disk, the commit it is of, and whether it was fetched just now."""

    path: Path
    reference: Reference
    fetched: bool

    @property
    def note(self) -> str:
        """Where the answer comes from: a branch in the cache may have moved on the hub since."""
        source = "fetched from the hub" if self.fetched else "from the cache of the hub"
        return f"{CONFIG} of {self.reference}, {source}"


def cached(wanted: Reference) -> CachedConfig | None:
    """The config.json that the cache holds of this revision: refs/BRANCH names a folder of snapshots/."""
    folder = cache_folder() / f"models--{wanted.repo.replace('/', '--')}"
    commit = _ref(folder / "refs" / wanted.revision) or wanted.revision
    path = folder / "snapshots" / commit / CONFIG
    if "/" in commit or not path.is_file():
        return None
    return CachedConfig(path, Reference(wanted.repo, commit), fetched=False)


def _ref(path: Path) -> str:
    """The commit that a file of refs/ names."""
    try:
        commit = path.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""
    return commit if re.fullmatch(r"\w+", commit) else ""


def cache_folder() -> Path:
    """Where the hub's library keeps its cache: HF_HUB_CACHE, else in HF_HOME, else in the user's cache."""
    user_cache = os.environ.get("XDG_CACHE_HOME", str(Path("~/.cache").expanduser()))
    home = _expanded(os.environ.get("HF_HOME", str(Path(user_cache) / "huggingface")))
    default = os.environ.get("HUGGINGFACE_HUB_CACHE", str(Path(home) / "hub"))
    return Path(_expanded(os.environ.get("HF_HUB_CACHE", default)))


def _expanded(path: str) -> str:
    return os.path.expandvars(Path(path).expanduser()) if path else path
