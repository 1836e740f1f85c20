"""A running server with the OpenAI API: what it is, and when the tokens of a completion arrive."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http.client import HTTPException, HTTPResponse
from time import perf_counter
from typing import Any, NamedTuple
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from archcli.errors import ArchError

MOST_BYTES, FACTS_S, COMPLETION_S = 1 << 20, 10, 600
VERSIONS = {"version": "version", "get_server_info": "version", "props": "build_info"}
"""Where vLLM, SGLang and llama.cpp say their version, beside /v1, and by which key."""
EXAMPLE = "start the server, or state its address: http://localhost:8000/v1"


class ServerFacts(NamedTuple):
    """What a server says of itself: the model and its owner, `vllm` or `llamacpp`, and a version if any."""

    model: str
    owner: str
    version: str


class Completion(NamedTuple):
    """Seconds to the first and to the last token of a completion, and tokens of its prompt and of it."""

    first_s: float
    last_s: float
    prompt: int
    new: int

    @property
    def token_s(self) -> float:
        """Seconds of a token after the first."""
        return (self.last_s - self.first_s) / max(1, self.new - 1)


def server_facts(url: str) -> ServerFacts:
    """What the server of an address is. Raises ArchError for one that does not answer."""
    models = _facts(f"{url}/models").get("data")
    if not isinstance(models, list) or not models or not isinstance(models[0], dict):
        raise ArchError(f"{url}/models lists no model", EXAMPLE)
    version = ""
    for place, key in VERSIONS.items():
        with suppress(ArchError):
            version = version or str(_facts(f"{url.removesuffix('/v1')}/{place}").get(key, ""))
    return ServerFacts(str(models[0].get("id", "")), str(models[0].get("owned_by", "")), version)


def complete(url: str, model: str, prompt: str, new: int) -> Completion:
    """Stream a completion of so many tokens. Raises ArchError for fewer than two."""
    body = {"model": model, "prompt": prompt, "max_tokens": new, "temperature": 0, "ignore_eos": True}
    body |= {"stream": True, "stream_options": {"include_usage": True}}
    times: list[float] = []
    usage: Mapping[str, Any] = {}
    begun = perf_counter()
    with _answer(f"{url}/completions", json.dumps(body).encode(), COMPLETION_S) as response:
        for line in response:
            event = line.removeprefix(b"data:").strip()
            if not line.startswith(b"data:") or event == b"[DONE]":
                continue
            chunk = json.loads(event)
            usage = chunk.get("usage") or usage
            if any(choice.get("text") for choice in chunk.get("choices", ())):
                times.append(perf_counter() - begun)
    if len(times) < 2:  # noqa: PLR2004
        raise ArchError(f"{url}/completions streams {len(times)} tokens, and two are timed at least", EXAMPLE)
    counts = (usage.get("prompt_tokens"), usage.get("completion_tokens"))
    return Completion(
        times[0], times[-1], int(counts[0] or len(prompt.split())), int(counts[1] or len(times))
    )


def _facts(url: str) -> dict[str, Any]:
    with _answer(url, None, FACTS_S) as response:
        facts = json.loads(response.read(MOST_BYTES))
        return facts if isinstance(facts, dict) else {}


@contextmanager
def _answer(url: str, body: bytes | None, timeout_s: float) -> Iterator[HTTPResponse]:
    """The answer to a question. Raises ArchError where there is none, or one of another form."""
    try:
        # `bench` lets addresses of http and https alone come here
        request = Request(url, body, {"Content-Type": "application/json"})  # noqa: S310
        with urlopen(request, timeout=timeout_s) as response:  # noqa: S310
            yield response
    except HTTPError as error:
        raise ArchError(f"{url} answers {error.code} {error.reason}", EXAMPLE) from None
    except (OSError, HTTPException, ValueError, AttributeError) as error:
        raise ArchError(f"{url} does not answer: {getattr(error, 'reason', error)}", EXAMPLE) from None
