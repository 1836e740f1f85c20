"""Repositories of the Hugging Face hub by name, and their config.json in the cache."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

from archcli.errors import ArchError, Problem, quote
from archcli.load.yaml.text import may_read, open_regular

SCHEME, MAIN = "hf://", "main"
# validate_repo_id of huggingface_hub: letters, digits, `.`, `_` and `-`, at most 96, no `--` and no `..`
PART = r"[A-Za-z0-9_](?:[\w.-]{0,94}[A-Za-z0-9_])?"
REVISION = r"(?:@(?P<revision>.*))?"
REPO = re.compile(rf"(?P<repo>{PART}/{PART}){REVISION}", re.ASCII | re.DOTALL)
AFTER_SCHEME = re.compile(
    rf"(?:models/(?={PART}/))?(?P<repo>(?:{PART}/)?{PART}){REVISION}", re.ASCII | re.DOTALL
)
GIT_NAME = re.compile(r"[\w+-][\w.+-]*(?:/[\w+-][\w.+-]*)*", re.ASCII)
WEB = re.compile(r"(?:https?://)?(?:www\.)?(?:huggingface\.co|hf\.co)/(?P<repo>[^/]+/[^/?#]+)")
# characters of a name that a message quotes, and bytes of a file in refs/
LONGEST = 400


class Reference(NamedTuple):
    """A repository and a revision of it: a branch, a tag or a commit."""

    repo: str
    revision: str = MAIN

    def __str__(self) -> str:
        return f"{SCHEME}{self.repo}@{self.revision}"


def reference(model: str) -> Reference | None:
    """The repository that MODEL names, or None: `hf://…`, or `org/name` without a folder `org`."""
    if web := WEB.match(model):
        what = f"{quote(model, LONGEST)} is a web page"
        raise ArchError(Problem(what, f"{SCHEME}{web['repo']} names the model", path=""))
    has_scheme = model.startswith(SCHEME)
    match = AFTER_SCHEME.fullmatch(model.removeprefix(SCHEME)) if has_scheme else REPO.fullmatch(model)
    if match is None or "--" in match["repo"] or ".." in match["repo"]:
        if has_scheme:
            what = f"{quote(model, LONGEST)} names no model"
            raise ArchError(Problem(what, f"write {SCHEME}org/name or {SCHEME}org/name@revision"))
        return None
    folder = Path(match["repo"].partition("/")[0])
    if not has_scheme and may_read(folder) and folder.is_dir():
        return None
    return Reference(match["repo"], _revision(model, match["revision"]))


def _revision(model: str, revision: str | None) -> str:
    """The revision, checked to be a valid git name that cannot escape the cache's folder."""
    if revision is None:
        return MAIN
    if not GIT_NAME.fullmatch(revision) or ".." in revision:
        hint = "a branch, a tag or a commit follows the @"
        raise ArchError(Problem(f"{quote(revision)} is no revision", hint, path=quote(model)))
    return revision


CONFIG = "config.json"
OF_MODELOPT = "hf_quant_config.json"
"""ModelOpt's file on how weights are stored, which may stand beside."""


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
    # a revision with a slash, such as refs/pr/1, is a file of refs/ and no folder of snapshots/
    if "/" in commit or not path.is_file():
        return None
    return CachedConfig(path, Reference(wanted.repo, commit), fetched=False)


def _ref(path: Path) -> str:
    """The commit hash in a file of refs/."""
    try:
        with open_regular(path) as file:
            commit = file.read(LONGEST).decode("ascii").strip()
    except (OSError, ValueError):
        return ""
    return commit if re.fullmatch(r"\w+", commit) else ""


def cache_folder() -> Path:
    """The cache folder of huggingface_hub: HF_HUB_CACHE, else in HF_HOME, else in the user's cache."""
    user_cache = os.environ.get("XDG_CACHE_HOME", str(Path("~/.cache").expanduser()))
    home = _expanded(os.environ.get("HF_HOME", str(Path(user_cache) / "huggingface")))
    # the older name of HF_HUB_CACHE, which huggingface_hub still reads
    default = os.environ.get("HUGGINGFACE_HUB_CACHE", str(Path(home) / "hub"))
    return Path(_expanded(os.environ.get("HF_HUB_CACHE", default)))


def _expanded(path: str) -> str:
    return os.path.expandvars(Path(path).expanduser()) if path else path
