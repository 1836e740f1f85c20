"""bench: `archcli bench` in Python, the speed of a running server as rows of benchmarks/measured."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from statistics import mean, median
from time import time_ns
from typing import Annotated, Any, NamedTuple

from archcli.api.asking.options import Engine
from archcli.api.asking.question import Option, asks, count_option
from archcli.errors import ArchError
from archcli.measure.report import Column, Report, Table
from archcli.modules.spec.values import AboveZero
from archcli.wings.serving.api.known_device.known import known_device
from archcli.wings.serving.api.predict import OneDevice
from archcli.wings.serving.devices.engines import engine_named
from archcli.wings.serving.load.server import Completion, complete, server_facts

Url = Annotated[str, Option("Of its OpenAI API: http://localhost:8000/v1.", metavar="URL", argument=True)]
Name = Annotated[
    str | None, Option("What archcli calls the model. [default: what the server does]", metavar="NAME")
]
Dtype = Annotated[str | None, Option("Of the weights: q4_k_m.", metavar="TYPE", completes="dtypes")]
Prompt = Annotated[AboveZero, count_option("Words of the prompt.", "-s")]
New = Annotated[AboveZero, count_option("Tokens made of each sequence.")]
AtOnce = Annotated[AboveZero, count_option("Sequences at once, beside one alone.", "-b")]
KEYS = ("id", "kind", "group", "source", "model", "sets", "ask", "metric", "measured", "note")
"""Columns of the tables of measured speeds."""
KINDS = {"first_ms": "bench_first", "ms_token": "bench_token"}
COLUMNS = (Column("note", "what"), Column("metric", "metric"), Column("measured", "measured", "number"))
CONVENTION = (
    "Medians of three runs behind one that is not counted; -o rows.csv writes rows of a table of speeds."
)
RUNS = 3
"""Runs of which the median is taken, behind one that is not counted."""


@dataclass(frozen=True)
class BenchOptions:
    """What `archcli bench` asks."""

    url: Url
    device: OneDevice
    _: KW_ONLY
    name: Name = None
    engine: Engine = None
    dtype: Dtype = None
    seq_len: Prompt = 512
    new: New = 128
    batch_size: AtOnce = 8


class Speed(NamedTuple):
    """Milliseconds of sequences at once, and the tokens of their prompts and of them."""

    first_ms: float
    ms_token: float
    prompt: int
    new: int


@asks(BenchOptions)
def bench(options: BenchOptions) -> Report:
    """How fast a running server is: the report of `archcli bench`.

    Its rows are those of a table of measured speeds. It asks the server at `url` for streamed completions, of
    one sequence and of `batch_size` at once, and sends nothing to anybody else.

    Example: `bench("http://localhost:8000/v1", "rtx-4090").rows[0]["metric"]` is first_ms.
    """
    return bench_report(options)


def bench_report(options: BenchOptions) -> Report:
    """The report. Raises ArchError for a server that does not answer."""
    if not re.match(r"https?://[^/\s]", options.url):
        raise ArchError(f"{options.url} is no address of a server", "such as http://localhost:8000/v1")
    if options.new == 1:
        raise ArchError("--new 1: a token after the first is timed", "--new 128")
    device, url = known_device(options.device).memory, options.url.rstrip("/")
    facts = server_facts(url)
    engine, model = options.engine or _engine(url, facts.owner), options.name or facts.model
    version = " ".join(filter(None, (engine, facts.version)))
    source = f"archcli bench ({version}, {dt.datetime.now().astimezone().date().isoformat()})"
    speeds = {n: _speed(options, url, facts.model, n) for n in dict.fromkeys((1, options.batch_size))}
    of_server = {"group": options.device, "source": source, "model": model, "sets": []}
    ask = {"device": options.device, "engine": engine}
    ask |= {} if options.dtype is None else {"dtype": options.dtype}
    measured = [row for n, speed in speeds.items() for row in _rows(ask, n, speed)]
    rows = [{"id": f"bench{i}", **row, **of_server} for i, row in enumerate(measured, 1)]
    alone = speeds[1]
    return Report(
        "bench",
        {"name": model, "source": url},
        {"device": device.name, "engine": engine, "dtype": options.dtype},
        CONVENTION,
        alone._asdict(),
        rows,
        (Table(f"{alone.prompt:,} tokens and {alone.new:,} more", COLUMNS, rows),),
        keys=KEYS,
        headline=f"{model}: {alone.first_ms} ms to the first token, {alone.ms_token} ms a token after it",
    )


def _engine(url: str, owner: str) -> str:
    """The engine that a server says it is."""
    with suppress(ArchError):
        return engine_named(owner)
    raise ArchError(f"{url} is of no known engine: {owner or 'it does not say'}", "--engine vllm")


def _speed(options: BenchOptions, url: str, model: str, at_once: int) -> Speed:
    """The speed of so many sequences at once, each with a prompt of its own, which no cache has."""

    def run(number: int) -> Completion:
        prompt = f"{number} {time_ns()} " + "and " * (options.seq_len - 2)
        return complete(url, model, prompt, options.new)

    with ThreadPoolExecutor(at_once) as pool:
        runs = [[*pool.map(run, range(at_once))] for _ in range(RUNS + 1)][1:]
    first = median(mean(reply.first_s for reply in replies) for replies in runs)
    token = median(mean(reply.token_s for reply in replies) for replies in runs)
    return Speed(round(1e3 * first, 3), round(1e3 * token, 4), runs[0][0].prompt, runs[0][0].new)


def _rows(ask: dict[str, Any], at_once: int, speed: Speed) -> Iterator[dict[str, Any]]:
    """The rows of a speed, as questions of `predict`: a prompt, and a token half-way."""
    asked_as = {
        "first_ms": {"phase": "serve", "batch_size": at_once, "seq_len": speed.prompt, "new": speed.new},
        "ms_token": {"phase": "decode", "batch_size": at_once, "past": speed.prompt + speed.new // 2},
    }
    for metric, sizes in asked_as.items():
        note = f"{speed.prompt} and {speed.new} tokens, {at_once} at once"
        figures = {"metric": metric, "measured": getattr(speed, metric), "note": note}
        yield {"kind": KINDS[metric], "ask": {**ask, **sizes}, **figures}
