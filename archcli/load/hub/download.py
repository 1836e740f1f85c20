"""A config.json fetched from the hub by its library, with the user's tokens; its errors in one line.

The library's retries are left out: who has no network is told so at once.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType

from archcli.errors import ArchError, Problem, closest, install, quote
from archcli.load.hub.cache import CONFIG, OF_MODELOPT, CachedConfig, Reference, cache_folder, cached
from archcli.load.presets import presets, same_release
from archcli.load.yaml.text import MOST_JSON

TOKEN = "`hf auth login` or HF_TOKEN gives a token"  # noqa: S105
HINTS: dict[int | str, str] = {401: TOKEN, 403: TOKEN, 404: "HF_ENDPOINT says where the hub is"}
"""By the status of HTTP."""


def hub_error(wanted: Reference, what: str, hint: str) -> ArchError:
    """The ArchError about a repository, with the preset of its name or the nearest where there is one."""
    preset = next(iter(same_release(wanted.repo)), "")
    near = next(iter(closest(wanted.repo.rpartition("/")[2], presets())), "")
    more = f"; preset {preset} needs no network" if preset else ""
    if near and not preset:
        more = f"; {CONFIG} of {wanted.repo} may be given as a file, and the nearest preset is {near}"
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
        # a subclass of RepositoryNotFoundError, and so before it
        errors.GatedRepoError: ("a gated model, which this user may not read", terms),
        errors.RepositoryNotFoundError: unknown,
        errors.RevisionNotFoundError: (
            f"the model has no revision {quote(wanted.revision)}",
            "without @ it is main",
        ),
        # a subclass of EntryNotFoundError, and so before it
        errors.LocalEntryNotFoundError: (f"{endpoint} went away during the download", "try again"),
        errors.EntryNotFoundError: (
            "the model has no config.json",
            "archcli counts from that file",
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


TIMEOUT_S = (3.0, 10.0, 10.0, 10.0)
"""Seconds to connect, to read, to write, and to wait for a connection of the pool."""


def find(wanted: Reference) -> CachedConfig:
    """The config.json of a model, from the cache or the hub; ArchError where it cannot be had."""
    # the cache first: it needs neither the network nor the import of huggingface_hub
    return cached(wanted) or _fetched(wanted)


def _fetched(wanted: Reference) -> CachedConfig:
    try:
        from huggingface_hub import constants

        if constants.HF_HUB_OFFLINE:
            what = "not in the cache, and HF_HUB_OFFLINE forbids to ask the hub"
            raise hub_error(wanted, what, f"the cache is {cache_folder()}")
        return _downloaded(wanted, constants.ENDPOINT)
    except ModuleNotFoundError as missing:
        # another module is missing: an installation that is broken, and not one without the extra
        if (missing.name or "").split(".")[0] != "huggingface_hub":
            raise
        what = "this needs huggingface_hub, which is not installed"
        raise hub_error(wanted, what, install("huggingface_hub")) from None
    except ValueError as error:  # the library reads its variables when it is imported
        what = f"huggingface_hub does not start: {error}"
        raise hub_error(wanted, what, "an HF_… variable of the environment is amiss") from None


def _downloaded(wanted: Reference, endpoint: str) -> CachedConfig:
    """Download the config.json into the cache, after one request for its size and commit."""
    from huggingface_hub import get_hf_file_metadata, hf_hub_download, hf_hub_url

    with explained(wanted, endpoint), _quiet():
        url = hf_hub_url(wanted.repo, CONFIG, revision=wanted.revision)
        known = get_hf_file_metadata(url, timeout=TIMEOUT_S)  # type: ignore[arg-type]
        commit = known.commit_hash or ""
        if not COMMIT.fullmatch(commit):
            # it would name a folder of the cache
            what = f"{quote(commit)}, which is no commit" if commit else "no commit"
            hint = f"it names {what}; HF_ENDPOINT says where the hub is"
            raise hub_error(wanted, f"{endpoint} does not answer as a hub does", hint)
        if (known.size or 0) > MOST_JSON:
            what = f"its config.json is larger than {MOST_JSON >> 20} MiB"
            raise hub_error(wanted, what, "no config.json is like that")
        path = hf_hub_download(wanted.repo, CONFIG, revision=wanted.revision)
        if QUANTIZED.search(wanted.repo) and b"quantization" not in Path(path).read_bytes():
            _fetch_beside(wanted, commit)
    return CachedConfig(Path(path), Reference(wanted.repo, commit), fetched=True)


COMMIT = re.compile(r"[0-9a-f]{40}")
QUANTIZED = re.compile(r"fp[48]|nvfp|mxfp|int[48]|w[48]a|quant|modelopt", re.IGNORECASE)
"""What names of repositories with quantized weights say."""


def _fetch_beside(wanted: Reference, commit: str) -> None:
    """Download ModelOpt's file on how weights are stored, where the repository has one."""
    from huggingface_hub import errors, get_hf_file_metadata, hf_hub_download, hf_hub_url

    with suppress(errors.EntryNotFoundError):
        url = hf_hub_url(wanted.repo, OF_MODELOPT, revision=commit)
        known = get_hf_file_metadata(url, timeout=TIMEOUT_S)  # type: ignore[arg-type]
        if (known.size or 0) <= MOST_JSON:
            hf_hub_download(wanted.repo, OF_MODELOPT, revision=commit)


@contextmanager
def _quiet() -> Iterator[None]:
    """Switch off telemetry, and the progress bar unless the user asked for it."""
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
