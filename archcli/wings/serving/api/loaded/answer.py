"""A predicted server under a load, asked with the options of `archcli predict`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from statistics import mean
from typing import Any

from archcli.errors import ArchError, either
from archcli.measure.kvcache.engine import NO_ENGINE
from archcli.measure.report import Report
from archcli.wings.serving.api.loaded.options import OF_LOAD, WAYS, LoadOptions
from archcli.wings.serving.devices.engines import engines, load_engine
from archcli.wings.serving.memory.answers.tables import plan_in_words
from archcli.wings.serving.memory.plan import Plan
from archcli.wings.serving.predict.answers.limits import duration
from archcli.wings.serving.predict.answers.question import PredictQuestion, check_prediction
from archcli.wings.serving.predict.answers.report import inputs_of
from archcli.wings.serving.queueing.load import LoadedServer
from archcli.wings.serving.queueing.report import ONE, load_report
from archcli.wings.serving.queueing.scheduler import Scheduler
from archcli.wings.serving.queueing.search import fewest, highest_rate, plan_points, plans_of
from archcli.wings.serving.queueing.split import SplitServer

RARE = 1e-3
"""Requests a second of which none meets another."""


def predict_load(
    question: PredictQuestion,
    options: LoadOptions,
    ask: Callable[..., PredictQuestion],
    *,
    fits: str | None = None,
    has_curve: bool = False,
) -> Report:
    """The report of a load. `ask` asks the question with other options.

    Raises ArchError where the scheduler of the engine is not known, and for targets that nothing meets.
    """
    check_prediction(question)
    server, lead = loaded_server(question, options), ""
    if fits == "devices" and options.rate is not None:
        best = fewest(
            server, options.rate, lambda plan: loaded_server(ask(**_of_plan(server, plan)), options)
        )
        server = replace(loaded_server(ask(**_of_plan(server, best.plan)), options), known=best.passes)
        lead = f"The fewest devices are {best.plan.devices} x {server.question.device.name}: "
    if options.split is not None:
        server = split_server(server, options, ask(**options.pool))
    if fits == "time":
        return _best_plan(server, options, ask)
    if options.seeks_rate:
        rate = highest_rate(server, server.usual)
        if not rate:
            raise _unmet(server)
        server, lead = replace(server, load=server.load.paced(rate)), "At most "
    return load_report(server, _inputs(server, options), has_curve=has_curve, lead=lead)


FRONT = ("", "fp8", "nvfp4")
"""Formats of a front: the asked one, and those that devices multiply as they are."""


def _best_plan(server: LoadedServer, options: LoadOptions, ask: Callable[..., PredictQuestion]) -> Report:
    """The report of the best plan of the devices, beside all others in the formats of a front."""
    servers = []
    for form in FRONT:
        for plan in plans_of(server):
            # a format that the model or the engine does not have there has no point
            with suppress(ArchError):
                changes = {**_of_plan(server, plan), **({"dtype": form} if form else {})}
                servers.append(loaded_server(ask(**changes), options))
    forms = {(it.question.plan, it.question.model.stored_as): it for it in servers}
    points = plan_points(forms.values(), seeks_rate=options.seeks_rate)
    form = server.question.model.stored_as
    alike = [point for point in points if point.server.question.model.stored_as == form]
    if not alike:
        raise _unmet(server)
    best = max(alike, key=lambda point: point.merit)
    lead = f"The best plan is {plan_in_words(best.server.question.plan) or ONE}: "
    return load_report(best.server, _inputs(best.server, options), lead=lead, points=points)


def _inputs(server: LoadedServer, options: LoadOptions) -> dict[str, Any]:
    load = {name: getattr(options, name) for name in (*WAYS, *OF_LOAD)}
    load |= {"requests": len(server.load.requests), "seed": options.seed or 0}
    load = {name: value for name, value in load.items() if value is not None}
    return {**inputs_of(server.question), "load": load}


def _of_plan(server: LoadedServer, plan: Plan) -> dict[str, Any]:
    """Options by which a plan that was looked for is asked on as many devices as it has."""
    name = server.question.device.name
    return {"device": f"{plan.devices}x{name}", "fit": None, "dp": plan.dp, "tp": plan.tp, "pp": plan.pp}


def _unmet(server: LoadedServer) -> ArchError:
    """The error of targets that a request alone does not meet."""
    alone = server.outcome(server.usual, server.load.paced(RARE))
    what = (
        f"no rate meets the targets: alone, the first token of a request takes {duration(alone.first.p90)}, "
        f"and each after it {duration(alone.per_token.p90)}"
    )
    return ArchError(what, "later --ttft and --tpot, more devices, fewer bits, or shorter prompts")


def loaded_server(question: PredictQuestion, options: LoadOptions) -> LoadedServer:
    """The server of a question under the load of its options."""
    engine, groups = question.settings.engine or NO_ENGINE, question.plan.dp_attention
    chunk, most = question.options.chunk or engine.chunk, options.max_sequences or engine.max_sequences
    facts = load_engine(engine.name)
    scheduler = Scheduler.of(
        facts,
        chunk and chunk * groups,
        max_sequences=most and most * groups,
    )
    if scheduler is None:
        hint = f"--engine {either([name for name in engines() if 'reserves' in load_engine(name)])}"
        raise ArchError(f"how {engine.title} admits requests is not known", hint)
    load = options.load(int(question.settings.tokens(question.model)), question.options.new)
    if options.trace is not None:  # which states the lengths
        prompt, new = (round(mean(getattr(it, name) for it in load.requests)) for name in ("prompt", "new"))
        question = replace(question.changed(seq_len=prompt), options=replace(question.options, new=new))
    return LoadedServer(question, load, scheduler, options.targets, facts.get("loads", {}))


def split_server(server: LoadedServer, options: LoadOptions, first: PredictQuestion) -> SplitServer:
    """The server with its prompts on other devices. Raises ArchError where no rate between them is known."""
    rates = [it.device.timing.fabric.network_gb_s for it in (first, server.question)]
    if None in rates:
        raise ArchError("the rate between the pools is not known", "state it: --network 400Gb/s")
    prompts = tuple(request._replace(new=1) for request in server.load.requests)
    prefill = replace(loaded_server(first, options), load=server.load._replace(requests=prompts))
    fields = {name: getattr(server, name) for name in ("question", "load", "scheduler", "targets", "ranges")}
    return SplitServer(**fields, prefill=prefill, sent_gb_s=min(filter(None, rates)))
