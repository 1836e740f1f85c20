"""A config.json fetched from the hub by its library, with the user's tokens, endpoint and proxies.

The library's retries are left out: who has no network is told so at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from archcli.errors import install
from archcli.load.hub.cache import CONFIG, CachedConfig, cache_folder, cached
from archcli.load.hub.errors import explained, hub_error
from archcli.load.hub.reference import Reference
from archcli.load.yaml.text import MOST_JSON

TIMEOUT_S = (3.0, 10.0, 10.0, 10.0)
"""Seconds to connect, to read, to write, and to wait for a connection of the pool."""


def find(wanted: Reference) -> CachedConfig:
    """The config.json of a model, from the cache or the hub; ArchError where it cannot be had."""
    return cached(wanted) or _fetched(wanted)


def _fetched(wanted: Reference) -> CachedConfig:
    try:
        from huggingface_hub import constants

        if constants.HF_HUB_OFFLINE:
            what = "not in the cache, and HF_HUB_OFFLINE forbids to ask the hub"
            raise hub_error(wanted, what, f"the cache is {cache_folder()}")
        return _downloaded(wanted, constants.ENDPOINT)
    except ModuleNotFoundError as missing:
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
        if known.commit_hash is None:
            hint = "HF_ENDPOINT says where the hub is"
            raise hub_error(wanted, f"{endpoint} does not answer as a hub does", hint)
        if (known.size or 0) > MOST_JSON:
            what = f"its config.json is larger than {MOST_JSON >> 20} MiB"
            raise hub_error(wanted, what, "no config.json is like that")
        path = hf_hub_download(wanted.repo, CONFIG, revision=wanted.revision)
    return CachedConfig(Path(path), Reference(wanted.repo, known.commit_hash), fetched=True)


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
