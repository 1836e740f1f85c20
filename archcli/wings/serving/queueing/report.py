"""The report of `archcli predict` of a server under a load."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from archcli.measure.report import Column, LateTables, Report, Table
from archcli.units import three_figures
from archcli.wings.serving.memory.answers.tables import plan_in_words
from archcli.wings.serving.memory.answers.verdict import verdict_of
from archcli.wings.serving.predict.answers.costs import HOUR, MILLION, scaled
from archcli.wings.serving.predict.answers.limits import duration, why_limit
from archcli.wings.serving.predict.answers.tables import to_four
from archcli.wings.serving.queueing.load import LoadedServer
from archcli.wings.serving.queueing.outcome import NO_TARGETS, PERCENTILES, LoadOutcome, Spread
from archcli.wings.serving.queueing.pass_times import Figure
from archcli.wings.serving.queueing.search import PlanPoint

Record = dict[str, Any]
LoadOutcomes = Mapping[Figure, LoadOutcome]
TIMES = {
    "first_token_s": ("first", "first token"),
    "per_token_s": ("per_token", "token after it"),
    "between_tokens_s": ("between", "between tokens"),
    "end_to_end_s": ("end_to_end", "whole request"),
}
"""Times of requests by JSON's keys: the field of an outcome, and words."""
RATES = ("tokens_per_s", "prompt_tokens_per_s", "requests_per_s")
OVER_TIME = ("running", "waiting", "most_running", "most_waiting", "preemptions")
KEYS = ("metric", "mean", "p50", "p90", "p99")
RANGED = {"first": "first", "per_token": "token", **dict.fromkeys(RATES, "rate")}
"""Figures whose range was measured, and its name in an engine's `loads`."""


def load_report(
    server: LoadedServer,
    inputs: Record,
    *,
    has_curve: bool = False,
    lead: str = "",
    points: Sequence[PlanPoint] = (),
) -> Report:
    """The report: times of requests and rates, the queue, the cache, targets; `lead` says what was found.

    points: other plans under the load.
    """
    question, outcomes = server.question, {name: server.outcome(name) for name in server.figures}
    totals = _totals(server, outcomes)
    totals["tokens_per_s_per_device"] = scaled(totals["tokens_per_s"], 1 / server.devices)
    totals["cost"] = _cost(server, totals["tokens_per_s"])
    totals["sentence"] = lead + _headline(server, totals)
    if has_curve:
        totals["curve"] = curve_points(server, totals["capacity_requests_per_s"])
    if points:
        totals["plans"] = [_plan_record(point) for point in points]
    usual = outcomes[server.usual]
    rows = [{"metric": key, **getattr(usual, name)._asdict()} for key, (name, _) in TIMES.items()]
    return Report(
        command="predict",
        model={"name": question.model.name, "source": question.model.source},
        inputs=inputs,
        convention=_convention(server),
        totals=totals,
        rows=rows,
        tables=LateTables(lambda: _tables(server, outcomes, totals)),
        notes=tuple(_notes(server, totals)),
        keys=KEYS,
        title=server.title,
        headline=totals["sentence"],
        not_modelled=("The client, the network, and the time to write tokens as text.",),
    )


def _figures(server: LoadedServer, outcomes: LoadOutcomes, name: str, part: str = "") -> Record:
    """A figure of each outcome by JSON's keys, of means and rates with the range that is known."""
    known = {figure: getattr(outcome, name) for figure, outcome in outcomes.items()}
    if part:
        known = {figure: getattr(spread, part) for figure, spread in known.items()}
    floor, expected = known["floor"], known.get("expected")
    span = server.ranges.get(RANGED.get(name, "")) if part in {"", "mean"} else None
    low = high = None
    if span is not None and expected is not None:
        is_rate = name in RATES
        low, high = span["low"] * expected, span["high"] * expected
        low, high = (low, min(high, floor)) if is_rate else (max(low, floor), high)
    return {"floor": floor, "expected": expected, "low": low, "high": high}


def _totals(server: LoadedServer, outcomes: LoadOutcomes) -> Record:
    question, usual = server.question, outcomes[server.usual]
    # the cache admits no more than fit: what must fit is a sequence of each group
    memory = question.memory().changed(batch_size=question.plan.dp * question.plan.dp_attention)
    capacity = server.capacity(server.usual) if server.load.rate else None
    requests = server.load.requests
    return {
        "time_s": _figures(server, outcomes, "seconds"),
        "tokens": sum(request.new for request in requests),
        **{name: _figures(server, outcomes, name) for name in RATES},
        "load_rate": server.load.rate,
        **{key: _figures(server, outcomes, name, "mean") for key, (name, _) in TIMES.items()},
        "percentiles": {
            f"p{p}": {key: _figures(server, outcomes, name, f"p{p}") for key, (name, _) in TIMES.items()}
            for p in PERCENTILES
        },
        **{name: getattr(usual, name) for name in OVER_TIME},
        "cache": usual.pages,
        "most_cache": usual.most_pages,
        "cache_tokens": int(server.replicas.room.pages * server.replicas.room.page),
        "capacity_requests_per_s": capacity,
        "saturated": None if capacity is None else (server.load.rate or 0.0) >= capacity,
        "targets": _targets(server, outcomes),
        "devices": server.devices,
        "fits": memory.fits(),
        "verdict": verdict_of(memory, memory.answer()),
    }


def _cost(server: LoadedServer, rates: Record) -> Record | None:
    """The price of a million generated tokens, prompts and all, at the price of an hour."""
    price, devices = server.question.options.price_per_hour, server.devices
    if price is None:
        return None
    per_second = price * devices / HOUR
    million = {name: rate and MILLION * per_second / rate for name, rate in rates.items()}
    million["low"], million["high"] = million["high"], million["low"]
    return {"price_per_hour": price, "per_million_generated_tokens": million, "price": server.question.priced}


def _targets(server: LoadedServer, outcomes: LoadOutcomes) -> Record | None:
    targets = server.targets
    if targets.first_s is None and targets.token_s is None:
        return None
    goodput = {figure: outcome.goodput for figure, outcome in outcomes.items()}
    return {
        "first_token_s": targets.first_s,
        "per_token_s": targets.token_s,
        "percentile": targets.percentile,
        "goodput_per_s": goodput,
        "met": targets.met_by(outcomes[server.usual]),
    }


def _convention(server: LoadedServer) -> str:
    of = (
        "expected"
        if server.is_known
        else f"at the limit of the device's peaks ({why_limit(server.question, {})})"
    )
    return (
        f"Simulated: {len(server.load.requests):,} requests, each pass with the sequences that the scheduler "
        f"of {server.question.engine_title} puts into it, and the seconds of its kernels, {of}; all requests "
        f"count, the first and the last too.{_of_ranges(server)}"
    )


def _of_ranges(server: LoadedServer) -> str:
    if not (server.is_known and server.ranges):
        return ""
    return " low to high: a range that held 80% of measured loads of this engine."


def _headline(server: LoadedServer, totals: Record) -> str:
    figure = server.usual
    first, token = totals["first_token_s"], totals["per_token_s"]
    p90 = totals["percentiles"]["p90"]["first_token_s"][figure]
    rate = totals["tokens_per_s"][figure]
    at = "" if server.is_known else "at best "
    text = (
        f"{_arrivals(server)}: {at}first token after {duration(first[figure])}{_range(first)} in the mean, "
        f"{duration(p90)} at 90%; then {duration(token[figure])} a token; {to_four(rate):,} tokens/s"
    )
    if totals["saturated"]:
        text += (
            f". Too many: it can take {three_figures(totals['capacity_requests_per_s'])} requests a second"
        )
    return text


def _range(record: Record) -> str:
    if record["low"] is None:
        return ""
    return f" ({duration(record['low'])} to {duration(record['high'])})"


def _arrivals(server: LoadedServer) -> str:
    """`4 requests/s`, `64 in flight`, `3,000 requests at once`."""
    load = server.load
    if load.rate is not None:
        return f"{three_figures(load.rate)} requests/s"
    if load.concurrency is not None:
        return f"{load.concurrency:,} in flight"
    return f"{len(load.requests):,} requests at once"


def _tables(server: LoadedServer, outcomes: LoadOutcomes, totals: Record) -> Iterator[Table]:
    usual = outcomes[server.usual]
    columns = [Column("what", "seconds of a request"), Column("mean", "mean", "seconds")]
    columns += [Column(f"p{p}", f"{p}%", "seconds") for p in PERCENTILES]
    ranged = server.is_known and server.ranges
    if ranged:
        columns += [Column(name, f"{name} mean", "seconds", minor=True) for name in ("low", "high")]
    records = []
    for key, (name, label) in TIMES.items():
        spread: Spread = getattr(usual, name)
        ends = {end: totals[key][end] for end in ("low", "high")}
        records.append({"what": label, **spread._asdict(), **ends})
    yield Table("times", columns, records)
    figures = [Column("what", "over the run"), Column("value", "", unit_key="unit")]
    yield Table("load", figures, list(_lines(server, totals)))
    if "curve" in totals:
        yield _curve_table(totals["curve"], server.usual)
    if "plans" in totals:
        yield Table("by plan", PLAN_COLUMNS, totals["plans"])


ONE = "one device"
PLAN_COLUMNS = [
    Column("plan", "plan", "text"),
    Column("format", "format", "text"),
    Column("rate", "requests/s", "number"),
    Column("first_token_s", "first token", "seconds"),
    Column("per_token_s", "token after it", "seconds"),
    Column("tokens_per_s", "tokens/s", "number"),
    Column("front", "front", "flag"),
]


def _plan_record(point: PlanPoint) -> Record:
    question, outcome = point.server.question, point.outcome
    return {
        "plan": plan_in_words(question.plan) or ONE,
        "format": question.model.stored_as or question.settings.dtype,
        "rate": to_four(outcome.requests_per_s if point.rate is None else point.rate),
        "first_token_s": outcome.first.mean,
        "per_token_s": outcome.per_token.mean,
        "tokens_per_s": to_four(outcome.tokens_per_s),
        "front": point.is_front,
    }


STEPS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1)
"""Rates of a curve, as parts of what the server can take."""


def curve_points(server: LoadedServer, capacity: float) -> list[Record]:
    """The same requests at rates up to what the server can take, and one beyond."""
    return [_point(server, part * capacity) for part in STEPS]


def _point(server: LoadedServer, rate: float) -> Record:
    outcomes = {figure: server.outcome(figure, server.load.paced(rate)) for figure in server.figures}
    usual, targets = outcomes[server.usual], server.targets
    return {
        "rate": rate,
        "first_token_s": _figures(server, outcomes, "first", "mean"),
        "first_token_p90_s": usual.first.p90,
        "latency_s": _figures(server, outcomes, "per_token", "mean"),
        "tokens_per_s": _figures(server, outcomes, "tokens_per_s"),
        "waiting": usual.waiting,
        "met": targets.met_by(usual) if targets != NO_TARGETS else None,
    }


def _curve_table(points: list[Record], figure: Figure) -> Table:
    columns = [
        Column("rate", "requests/s", "number"),
        Column("first", "first token", "seconds"),
        Column("first_token_p90_s", "90%", "seconds"),
        Column("token", "token after it", "seconds"),
        Column("tokens", "tokens/s", "number"),
        Column("wait", "wait", "number"),
    ]
    if points[0]["met"] is not None:
        columns.append(Column("met", "targets", "flag"))
    records = [
        {
            **point,
            "rate": to_four(point["rate"]),
            "first": point["first_token_s"][figure],
            "token": point["latency_s"][figure],
            "tokens": to_four(point["tokens_per_s"][figure]),
            "wait": round(point["waiting"], 1),
        }
        for point in points
    ]
    return Table("by rate", columns, records)


def _lines(server: LoadedServer, totals: Record) -> Iterator[Record]:
    def line(what: str, value: Any, unit: str = "number") -> Record:
        return {"what": what, "value": value, "unit": unit}

    figure = server.usual
    yield line("tokens/s", to_four(totals["tokens_per_s"][figure]))
    yield line("prompt tokens/s", to_four(totals["prompt_tokens_per_s"][figure]))
    if totals["cost"] is not None:
        million = totals["cost"]["per_million_generated_tokens"][figure]
        yield line("price of a million generated tokens", to_four(million))
    yield line("requests/s", to_four(totals["requests_per_s"][figure]))
    if totals["capacity_requests_per_s"] is not None:
        yield line("requests/s that it can take", to_four(totals["capacity_requests_per_s"]))
    yield line("sequences that run", f"{totals['running']:,.1f}, at most {totals['most_running']:,}", "text")
    yield line("requests that wait", f"{totals['waiting']:,.1f}, at most {totals['most_waiting']:,}", "text")
    yield line("cache in use", f"{totals['cache']:.0%}, at most {totals['most_cache']:.0%}", "text")
    yield line("preemptions", totals["preemptions"])
    if totals["targets"] is not None:
        yield line("requests/s within targets", to_four(totals["targets"]["goodput_per_s"][figure]))


def _notes(server: LoadedServer, totals: Record) -> Iterator[str]:
    load, targets = server.load, totals["targets"]
    if load.rate is None and load.concurrency is None:
        yield "All requests come at once: the mean of first tokens is that of a queue that empties."
    if totals["preemptions"]:
        yield f"{totals['preemptions']:,} times the cache was full, and a sequence was computed anew later."
    if targets is not None and not targets["met"]:
        good = targets["goodput_per_s"][server.usual]
        rate = totals["requests_per_s"][server.usual]
        yield f"Targets hold for {good / rate:.0%} of requests, not for {targets['percentile']:g}%."
