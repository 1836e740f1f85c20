"""Options of a load: how requests arrive, how long they are, and what they must not wait for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

from archcli.api.asking.question import Option, count_option
from archcli.errors import ArchError, Problem
from archcli.modules.spec.values import AboveZero, Conversion, Interval, ZeroOrMore, refused
from archcli.units import parse_decimal, parse_seconds
from archcli.wings.serving.queueing.requests import LengthForm

if TYPE_CHECKING:
    from archcli.wings.serving.queueing.load import Load
    from archcli.wings.serving.queueing.outcome import Targets

PACE = re.compile(r"\s*([0-9.eE+-]+)\s*(?:(?:/|per)\s*(s|second|min|minute|h|hour))?\s*", re.ASCII)
SECONDS = {None: 1, "s": 1, "second": 1, "min": 60, "minute": 60, "h": 3600, "hour": 3600}
PER = "a rate of requests such as 4/s or 90/min"
DEFAULT_REQUESTS, ROUNDS = 1000, 10
"""Requests of a load that states none: of a rate, and for each of a concurrency."""
ARRIVALS = ("rate", "concurrency", "requests", "trace")
WAYS = (*ARRIVALS, "ttft", "tpot")
"""Options that ask for a load: how requests arrive, or for the highest rate that meets targets."""


def _rate(value: Any) -> float:
    """Requests a second, above 0."""
    matched = PACE.fullmatch(str(value))
    if matched is None:
        raise refused(value, PER)
    over, under = parse_decimal(matched[1])
    if not over:
        raise refused(value, f"above 0: {PER}")
    return over / under / SECONDS[matched[2]]


def _time(value: Any) -> float:
    """Seconds of a time as people write it, above 0."""
    over, under = parse_seconds(str(value))
    if not over:
        raise refused(value, "above 0: a time such as 1s or 30ms")
    return over / under


POOL_FORM = "devices for prompts such as 2xh200-sxm or 4xh200-sxm:dp2,tp2"
POOL = re.compile(r"([^:]+)(?::((?:(?:dp|tp|pp|ep)[0-9]{1,5})(?:,(?:dp|tp|pp|ep)[0-9]{1,5})*))?", re.ASCII)


def _pool(value: Any) -> str:
    """Devices and a plan, as written."""
    if POOL.fullmatch(str(value)) is None:
        raise refused(value, POOL_FORM)
    return str(value)


Pool = Annotated[str, Conversion(POOL_FORM, _pool)]
RequestRate = Annotated[float, Conversion(PER, _rate)]
Time = Annotated[float, Conversion("a time such as 1s or 30ms", _time)]
Share = Annotated[float, Interval(ge=0, le=1)]


@dataclass(frozen=True, kw_only=True)
class LoadOptions:
    """How requests arrive at a server; with none of `WAYS` there is no load."""

    rate: Annotated[
        RequestRate | None, Option("Requests that arrive, at random: 4/s.", metavar="RATE", reads="text")
    ] = None
    concurrency: Annotated[
        AboveZero | None, count_option("Requests in flight: one is sent when another ends.")
    ] = None
    requests: Annotated[
        AboveZero | None, count_option("Requests in all; without a rate they come at once.", rare=True)
    ] = None
    trace: Annotated[
        str | None,
        Option("Requests of a file: CSV, or JSON by lines.", metavar="FILE", rare=True),
    ] = None
    burstiness: Annotated[
        Annotated[float, Interval(gt=0, le=100)] | None,
        Option(
            "Shape of the gamma-distributed intervals. [default: 1, Poisson]",
            metavar="K",
            reads="number",
            rare=True,
        ),
    ] = None
    lengths: Annotated[
        LengthForm | None,
        Option("Prompts and outputs: all alike, 1 to twice the mean, or lognormal.", rare=True),
    ] = None
    max_sequences: Annotated[
        AboveZero | None,
        count_option("Sequences that a replica runs at once. [default: the engine's]", rare=True),
    ] = None
    seed: Annotated[ZeroOrMore | None, Option("Of random arrivals and lengths. [default: 0]", rare=True)] = (
        None
    )
    prefix: Annotated[AboveZero | None, count_option("Tokens with which prompts begin alike.", rare=True)] = (
        None
    )
    hit: Annotated[
        Share | None,
        Option(
            "Share of requests that find it cached. [default: 1]", metavar="SHARE", reads="number", rare=True
        ),
    ] = None
    split: Annotated[
        Pool | None,
        Option(
            "Other devices for prompts, and their plan: 2xh200-sxm:tp2.",
            metavar="POOL",
            reads="text",
            rare=True,
        ),
    ] = None
    ttft: Annotated[
        Time | None,
        Option("Time to first token that must hold: 1s.", metavar="TIME", reads="text"),
    ] = None
    tpot: Annotated[
        Time | None, Option("Time per token that must hold: 30ms.", metavar="TIME", reads="text")
    ] = None
    percentile: Annotated[
        Annotated[float, Interval(gt=0, le=100)] | None,
        Option("Of requests for which they hold. [default: 90]", metavar="P", reads="number", rare=True),
    ] = None

    @property
    def is_loaded(self) -> bool:
        """Whether a load is asked for."""
        return any(getattr(self, name) is not None for name in WAYS)

    @property
    def seeks_rate(self) -> bool:
        """Whether targets are stated, and no arrivals: the highest rate is what is asked for."""
        return self.is_loaded and all(getattr(self, name) is None for name in ARRIVALS)

    @property
    def pool(self) -> dict[str, Any]:
        """The options of the devices for prompts; empty without."""
        matched = POOL.fullmatch(self.split or "")
        if matched is None:
            return {}
        degrees = dict.fromkeys(("dp", "tp", "pp", "ep"), 1)
        degrees |= {part[:2]: int(part[2:]) for part in (matched[2] or "").split(",") if part}
        return {"device": matched[1], "split": None, "fit": None, **degrees}

    @property
    def targets(self) -> Targets:
        """What requests must not wait for."""
        from archcli.wings.serving.queueing.outcome import Targets

        return Targets(self.ttft, self.tpot, self.percentile or 90.0)

    @property
    def number(self) -> int:
        """Requests in all, of those that are drawn."""
        return self.requests or ROUNDS * (self.concurrency or DEFAULT_REQUESTS // ROUNDS)

    def load(self, prompt: int, new: int) -> Load:
        """The requests of prompts and outputs of so many tokens in the mean."""
        from archcli.wings.serving.queueing.load import Load
        from archcli.wings.serving.queueing.requests import LoadRequest, Workload

        if self.trace is not None:
            from pathlib import Path

            from archcli.wings.serving.load.traces import read_trace

            rows = read_trace(Path(self.trace), self.rate)[: self.requests]
            requests, span = tuple(LoadRequest(*row) for row in rows), rows[-1][0]
            return Load(requests, self.concurrency, (len(rows) - 1) / span if span else None)
        hit = (1.0 if self.hit is None else self.hit) if self.prefix else 0.0
        rate = 1.0 if self.seeks_rate else self.rate
        drawn = Workload(
            *(self.number, prompt, new, rate),
            burstiness=self.burstiness or 1.0,
            spread=self.lengths or "fixed",
            seed=self.seed or 0,
            prefix=self.prefix or 0,
            hit=hit,
        )
        return Load(drawn.drawn(), self.concurrency, rate)


OF_LOAD = ("burstiness", "lengths", "max_sequences", "seed", "prefix", "hit", "split", "percentile")
"""Options that mean something under a load alone."""


NO_LOAD = dict.fromkeys((*WAYS, *OF_LOAD))
"""Options of no load."""


def as_served(options: Any) -> Any:
    """The options of a load as those of serving, with as many sequences as are in flight.

    Raises ArchError for options of a load without one, and for those that a load does not go with.
    """
    if not options.is_loaded:
        names = [name for name in OF_LOAD if getattr(options, name) is not None]
        names += ["curve rate"] * (options.curve == "rate") + ["fit devices"] * (options.fit == "devices")
        if names:
            listed = " and ".join(f"--{name.replace('_', '-')}" for name in names)
            hint = "state one: --rate 4/s, --concurrency 64 or --requests 500"
            raise ArchError(f"{listed} applies to a load only", hint)
        return options
    problems = list(_problems(options))
    if problems:
        raise ArchError(problems)
    return replace(options, phase="serve", batch_size=_in_flight(options))


OF_DRAWN = ("lengths", "seed", "prefix", "burstiness", "seq_len", "new")
"""Options of requests that are drawn."""
MANY = 2
"""Sequences that run beside each other."""


def _in_flight(options: Any) -> int:
    return options.concurrency or options.requests or MANY


def _problems(options: Any) -> Iterator[Problem]:
    if options.phase not in {"decode", "serve"}:
        yield Problem(f"a load is of serving, and the phase is {options.phase}", "leave --phase out")
    if options.batch_size not in {1, _in_flight(options)}:
        yield Problem("--batch-size does not go with a load", "--concurrency says how many are in flight")
    if options.hit is not None and options.prefix is None:
        yield Problem("--hit applies to a prefix only", "state its tokens: --prefix 2000")
    if options.burstiness is not None and not (options.rate or options.seeks_rate):
        yield Problem("--burstiness applies to a rate only", "state it: --rate 4/s")
    drawn = [name for name in OF_DRAWN if getattr(options, name) is not None]
    if options.trace is not None and drawn:
        option = drawn[0].replace("_", "-")
        yield Problem(f"--{option} is of requests that are drawn, and --trace states them", "leave one out")
    if options.split is not None and (options.concurrency or options.fit):
        yield Problem("--split goes with requests that arrive by themselves, and one plan", "--rate 4/s")
    yield from _of_targets(options)
    if options.media:
        yield Problem("images and sounds do not go with a load", "leave them out")
    for name in ("measured", "grid"):
        if getattr(options, name):
            yield Problem(f"--{name} does not go with a load", "leave it out")


def _of_targets(options: Any) -> Iterator[Problem]:
    """Problems of targets, and of what is looked for."""
    if options.percentile is not None and options.ttft is None and options.tpot is None:
        yield Problem("--percentile applies to targets only", "state them: --ttft 1s --tpot 30ms")
    if options.fit == "devices" and (options.rate is None or (options.ttft is None and options.tpot is None)):
        yield Problem("--fit devices needs a rate and targets", "--rate 10/s --ttft 1s --tpot 30ms")
    if options.curve not in {None, "rate"} or (options.curve and options.rate is None):
        yield Problem("under a load --curve is over the rate", "--curve rate with a --rate to begin with")
