"""Errors of huggingface_hub as one line for the user."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

from archcli.errors import ArchError, Problem
from archcli.load.hub.cache import cache_folder
from archcli.load.hub.reference import Reference
from archcli.load.presets import same_preset
from archcli.wording import quote

TOKEN = "`hf auth login` or HF_TOKEN gives a token"  # noqa: S105
HINTS: dict[int | str, str] = {401: TOKEN, 403: TOKEN, 404: "HF_ENDPOINT says where the hub is"}
"""By the status of HTTP."""


def hub_error(wanted: Reference, what: str, hint: str) -> ArchError:
    """The ArchError about a repository, with the preset of its name where there is one."""
    preset = next(iter(same_preset(wanted.repo)), "")
    more = f"; preset {preset} needs no network" if preset else ""
    return ArchError(Problem(what, hint + more, path=str(wanted)))


@contextmanager
def explained(wanted: Reference, endpoint: str) -> Iterator[None]:
    """Convert exceptions of huggingface_hub to ArchError."""
    from huggingface_hub import errors

    http = _http()
    try:
        yield
    except (http.HTTPError, http.InvalidURL, errors.EntryNotFoundError, OSError) as error:
        what, hint = _named(error, wanted, endpoint) or _general(error, endpoint)
        raise hub_error(wanted, what, hint) from None


def _http() -> ModuleType:
    """The module of the HTTP library (httpx) that this release of huggingface_hub uses."""
    from huggingface_hub.utils import get_session

    return sys.modules[type(get_session()).__module__.split(".")[0]]


def _named(error: Exception, wanted: Reference, endpoint: str) -> tuple[str, str] | None:
    """(problem, hint) for the library's specific errors, subclasses first; None for any other."""
    from huggingface_hub import errors

    unknown = "no such model on the hub, or a private one", f"check the name; for a private one {TOKEN}"
    terms = f"accept its terms on {endpoint}/{wanted.repo}; {TOKEN}"
    answers: dict[type[Exception], tuple[str, str]] = {
        errors.GatedRepoError: ("a gated model, which this user may not read", terms),
        errors.RepositoryNotFoundError: unknown,
        errors.RevisionNotFoundError: (
            f"the model has no revision {quote(wanted.revision)}",
            "without @ it is main",
        ),
        errors.LocalEntryNotFoundError: (f"{endpoint} went away during the download", "try again"),
        errors.EntryNotFoundError: (
            "the model has no config.json",
            "archcli reads no other file of the hub",
        ),
    }
    return next((answer for cls, answer in answers.items() if isinstance(error, cls)), None)


def _general(error: Exception, endpoint: str) -> tuple[str, str]:
    """(problem, hint) for an HTTP status, an unreachable server, and an unwritable cache."""
    from huggingface_hub import errors

    http = _http()
    if isinstance(error, errors.HfHubHTTPError):
        status = getattr(error.response, "status_code", "an error")
        return f"{endpoint} answers {status}", HINTS.get(status, "try again later")
    if isinstance(error, http.HTTPError | http.InvalidURL | errors.OfflineModeIsEnabled):
        hint = "check the network; what has been fetched once is answered from the cache"
        return f"{endpoint} cannot be reached ({type(error).__name__})", hint
    reason = getattr(error, "strerror", None) or error
    return f"cannot be kept in the cache: {reason}", f"the cache is {cache_folder()}"
