"""Names of repositories of the Hugging Face hub: `org/name`, `org/name@revision`, `hf://…`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from archcli.errors import ArchError, Problem
from archcli.wording import quote

SCHEME, MAIN = "hf://", "main"
PART = r"[A-Za-z0-9_](?:[\w.-]{0,94}[A-Za-z0-9_])?"
REVISION = r"(?:@(?P<revision>.*))?"
REPO = re.compile(rf"(?P<repo>{PART}/{PART}){REVISION}", re.ASCII | re.DOTALL)
AFTER_SCHEME = re.compile(
    rf"(?:models/(?={PART}/))?(?P<repo>(?:{PART}/)?{PART}){REVISION}", re.ASCII | re.DOTALL
)
GIT_NAME = re.compile(r"[\w+-][\w.+-]*(?:/[\w+-][\w.+-]*)*", re.ASCII)
WEB = re.compile(r"(?:https?://)?(?:www\.)?(?:huggingface\.co|hf\.co)/(?P<repo>[^/]+/[^/?#]+)")
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
    if not has_scheme and Path(match["repo"].partition("/")[0]).is_dir():
        return None
    return Reference(match["repo"], _revision(model, match["revision"]))


def _revision(model: str, stated: str | None) -> str:
    """The revision, checked to be a valid git name that cannot escape the cache's folder."""
    if stated is None:
        return MAIN
    if not GIT_NAME.fullmatch(stated) or ".." in stated:
        hint = "a branch, a tag or a commit follows the @"
        raise ArchError(Problem(f"{quote(stated)} is no revision", hint, path=quote(model)))
    return stated
