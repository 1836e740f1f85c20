"""config.json of a model on the Hugging Face hub: from its cache where it is there, else fetched. Nothing else is ever fetched or run.

The cache is read without the library, which takes longer to import than an answer takes; a fetch is the library's own, with its
tokens, endpoints and proxies, but without its retries: who has no network is told so at once.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from archcli.errors import ArchError, Problem
from archcli.load.yaml.text import MOST_BYTES
from archcli.wording import quoted

SCHEME, CONFIG, MAIN = "hf://", "config.json", "main"
PART = r"[A-Za-z0-9_](?:[\w.-]{0,94}[A-Za-z0-9_])?"
REPO = re.compile(rf"(?P<repo>{PART}/{PART})(?:@(?P<revision>.*))?", re.ASCII | re.DOTALL)
STATED = re.compile(
    rf"(?:models/(?={PART}/))?(?P<repo>(?:{PART}/)?{PART})(?:@(?P<revision>.*))?", re.ASCII | re.DOTALL
)
REVISION = re.compile(r"[\w+-][\w.+-]*(?:/[\w+-][\w.+-]*)*", re.ASCII)
WEB = re.compile(r"(?:https?://)?(?:www\.)?(?:huggingface\.co|hf\.co)/(?P<repo>[^/]+/[^/?#]+)")

TIMEOUT_S = (3.0, 10.0, 10.0, 10.0)
"""Seconds to connect, to read, to write, and to wait for a connection of the pool."""

MISSING = 404
INSTALL = "pip install 'archcli[hf]' adds it"


class Reference(NamedTuple):
    """A repository and a revision of it: a branch, a tag or a commit."""

    repo: str
    revision: str = MAIN

    def __str__(self) -> str:
        return f"{SCHEME}{self.repo}@{self.revision}"


class Found(NamedTuple):
    """Where a config.json lies, and the commit it is of."""

    path: Path
    reference: Reference
    fetched: bool

    @property
    def note(self) -> str:
        """Where the answer comes from: a branch in the cache may have moved on the hub since."""
        return f"config.json of {self.reference}, {'fetched from the hub' if self.fetched else 'from the cache of the hub'}"


def reference(model: str) -> Reference | None:
    """What on the hub MODEL names: `hf://…` always does, `org/name` where no folder `org` makes it a path; else None."""
    if web := WEB.match(model):
        raise ArchError(
            Problem(f"{quoted(model, 400)} is a web page", f"{SCHEME}{web['repo']} names the model", path="")
        )
    stated = model.startswith(SCHEME)
    match = STATED.fullmatch(model.removeprefix(SCHEME)) if stated else REPO.fullmatch(model)
    if match is None or "--" in match["repo"] or ".." in match["repo"]:
        if stated:
            raise ArchError(
                Problem(
                    f"{quoted(model, 400)} names no model",
                    f"write {SCHEME}org/name or {SCHEME}org/name@revision",
                )
            )
        return None
    if not stated and _is_folder(match["repo"].partition("/")[0]):
        return None
    return Reference(match["repo"], _revision(model, match["revision"]))


def _is_folder(name: str) -> bool:
    return Path(name).is_dir()


def _revision(model: str, stated: str | None) -> str:
    """A name that git allows, which cannot lead out of the cache's folder."""
    if stated is None:
        return MAIN
    if not REVISION.fullmatch(stated) or ".." in stated:
        raise ArchError(
            Problem(
                f"{quoted(stated)} is no revision",
                "a branch, a tag or a commit follows the @",
                path=quoted(model),
            )
        )
    return stated


def find(wanted: Reference) -> Found:
    """The config.json of a model, from the cache or the hub. Raises ArchError with one line for whatever keeps it away."""
    return cached(wanted) or _fetched(wanted)


def cached(wanted: Reference) -> Found | None:
    """The config.json that the cache holds of this revision, as the library lays it out: refs/BRANCH names a folder of snapshots/."""
    folder = cache_folder() / f"models--{wanted.repo.replace('/', '--')}"
    commit = _ref(folder / "refs" / wanted.revision) or wanted.revision
    path = folder / "snapshots" / commit / CONFIG
    return (
        Found(path, Reference(wanted.repo, commit), fetched=False)
        if "/" not in commit and path.is_file()
        else None
    )


def _ref(path: Path) -> str:
    """The commit that a file of refs/ names."""
    try:
        commit = path.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""
    return commit if re.fullmatch(r"\w+", commit) else ""


def cache_folder() -> Path:
    """Where the hub's library keeps its cache: HF_HUB_CACHE, else in HF_HOME, else in the user's own cache."""
    usual = os.environ.get("XDG_CACHE_HOME", str(Path("~/.cache").expanduser()))
    home = _expanded(os.environ.get("HF_HOME", str(Path(usual) / "huggingface")))
    return Path(
        _expanded(
            os.environ.get("HF_HUB_CACHE", os.environ.get("HUGGINGFACE_HUB_CACHE", str(Path(home) / "hub")))
        )
    )


def _expanded(path: str) -> str:
    return os.path.expandvars(Path(path).expanduser()) if path else path


def _fetched(wanted: Reference) -> Found:
    try:
        from huggingface_hub import constants

        if constants.HF_HUB_OFFLINE:
            raise _error(
                wanted,
                "not in the cache, and HF_HUB_OFFLINE forbids to ask the hub",
                f"the cache is {cache_folder()}",
            )
        return _downloaded(wanted, constants.ENDPOINT)
    except ModuleNotFoundError as missing:
        if (missing.name or "").split(".")[0] != "huggingface_hub":
            raise
        raise _error(wanted, "this needs huggingface_hub, which is not installed", INSTALL) from None
    except ValueError as error:  # it reads its variables when it is imported
        raise _error(
            wanted, f"huggingface_hub does not start: {error}", "an HF_… variable of the environment is amiss"
        ) from None


def _downloaded(wanted: Reference, endpoint: str) -> Found:
    """One question first, without retries, of which the library would make six; then its download, which fills the cache."""
    from huggingface_hub import get_hf_file_metadata, hf_hub_download, hf_hub_url

    with _explained(wanted, endpoint), _quiet():
        known = get_hf_file_metadata(
            hf_hub_url(wanted.repo, CONFIG, revision=wanted.revision),
            timeout=TIMEOUT_S,  # type: ignore[arg-type]
        )
        if known.commit_hash is None:
            raise _error(
                wanted, f"{endpoint} does not answer as a hub does", "HF_ENDPOINT says where the hub is"
            )
        if (known.size or 0) > MOST_BYTES:
            raise _error(
                wanted,
                f"its config.json is larger than {MOST_BYTES >> 20} MiB",
                "no config.json is like that",
            )
        path = hf_hub_download(wanted.repo, CONFIG, revision=wanted.revision)
    return Found(Path(path), Reference(wanted.repo, known.commit_hash), fetched=True)


@contextmanager
def _quiet() -> Iterator[None]:
    """One file and nothing else: no telemetry, which would ask the hub for more, and no progress bar but by the user's wish."""
    from huggingface_hub import constants
    from huggingface_hub.utils import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars

    shown = constants.HF_HUB_DISABLE_PROGRESS_BARS is None and not are_progress_bars_disabled()
    silent, constants.HF_HUB_DISABLE_TELEMETRY = constants.HF_HUB_DISABLE_TELEMETRY, True
    if shown:
        disable_progress_bars()
    try:
        yield
    finally:
        constants.HF_HUB_DISABLE_TELEMETRY = silent
        if shown:
            enable_progress_bars()


@contextmanager
def _explained(wanted: Reference, endpoint: str) -> Iterator[None]:
    """What the library raises, as one line."""
    from huggingface_hub import errors
    from huggingface_hub.utils import get_session

    http = sys.modules[
        type(get_session()).__module__.split(".")[0]
    ]  # httpx, under the name that this release of the library gives it
    token = "`hf auth login` or HF_TOKEN gives a token"  # noqa: S105
    try:
        yield
    except errors.GatedRepoError:
        hint = f"accept its terms on {endpoint}/{wanted.repo}; {token}"
        raise _error(wanted, "a gated model, which this user may not read", hint) from None
    except errors.RepositoryNotFoundError:
        raise _error(
            wanted, "no such model on the hub, or a private one", f"check the name; for a private one {token}"
        ) from None
    except errors.RevisionNotFoundError:
        raise _error(
            wanted, f"the model has no revision {quoted(wanted.revision)}", "without @ it is main"
        ) from None
    except errors.EntryNotFoundError as missing:
        if isinstance(missing, errors.LocalEntryNotFoundError):
            raise _error(wanted, f"{endpoint} went away during the download", "try again") from None
        raise _error(
            wanted, "the model has no config.json", "archcli reads no other file of the hub"
        ) from None
    except errors.HfHubHTTPError as answer:
        status = getattr(answer.response, "status_code", "an error")
        hint = (
            token
            if status in {401, 403}
            else "HF_ENDPOINT says where the hub is"
            if status == MISSING
            else "try again later"
        )
        raise _error(wanted, f"{endpoint} answers {status}", hint) from None
    except (http.HTTPError, http.InvalidURL, errors.OfflineModeIsEnabled) as error:
        hint = "check the network; what has been fetched once is answered from the cache"
        raise _error(wanted, f"{endpoint} cannot be reached ({type(error).__name__})", hint) from None
    except OSError as error:
        raise _error(
            wanted,
            f"cannot be kept in the cache: {error.strerror or error}",
            f"the cache is {cache_folder()}",
        ) from None


def _error(wanted: Reference, what: str, hint: str) -> ArchError:
    return ArchError(Problem(what, hint, path=str(wanted)))
