"""`predict --fit time`: the fastest parallel plan that fits into several devices."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from archcli.errors import ArchError, either
from archcli.wings.serving.memory.answers.question import MemoryQuestion
from archcli.wings.serving.memory.answers.tables import plan_options
from archcli.wings.serving.predict.answers.limits import in_one_unit
from archcli.wings.serving.predict.answers.question import PredictQuestion
from archcli.wings.serving.predict.search.candidates import PlanCandidates
from archcli.wings.serving.predict.search.search import PlanChoice, PlanTimer, TimedPlan, best_plan

Record = dict[str, Any]


class FastestPlan(NamedTuple):
    """The result of the search: by JSON's keys, and in sentences."""

    record: Record
    sentences: tuple[str, ...]


def fastest(question: PredictQuestion) -> tuple[PredictQuestion, FastestPlan]:
    """The question with the fastest plan, and the result of the search. Raises ArchError where none fits.

    Plans of serving are compared by one decoded token of each sequence, with all others in the cache.
    """
    n_devices = max(question.device.memory.n_devices, question.plan.devices)
    memory = question.memory()
    candidates = PlanCandidates(memory, n_devices, question.device.memory.per_node)
    timed = question.changed(phase="decode") if memory.settings.phase == "serve" else question
    step = MemoryQuestion(question.model, timed.settings, question.plan)
    choice = best_plan(memory, candidates, PlanTimer(step, question.timing, question.cache))
    if choice.best is None:
        raise _no_plan(question, n_devices, choice.n_tried)
    plan, settings = choice.best.candidate
    chosen = replace(
        question.settings,
        batch_size=settings.batch_size,
        grad_accum=settings.grad_accum,
        recompute=settings.recompute,
    )
    choice = choice.at_speed(question.engine.speed)
    answer = FastestPlan(_record(choice), tuple(_sentences(choice)))
    return replace(question, plan=plan, settings=chosen), answer


def _no_plan(question: PredictQuestion, n_devices: int, n_tried: int) -> ArchError:
    devices = f"{n_devices:,} x {question.device.name}"
    trains = question.phase == "train"
    if not n_tried:
        hint = "leave --cp out" if trains else f"-b {n_devices}, a sequence for each, or fewer devices"
        return ArchError(f"no plan shares the model among {devices}", hint)
    smaller = ["more devices", "shorter sequences"]
    # without --recompute the search tries each recomputation
    if trains and question.settings.recompute != "none":
        smaller.append("leave --recompute out")
    # in training the search tries micro batches of one sequence anyway
    if not trains and question.settings.batch_size > 1:
        smaller.append("fewer sequences")
    return ArchError(f"none of {n_tried:,} plans fits into {devices}", either(smaller))


def _record(choice: PlanChoice) -> Record:
    decides = choice.decides
    return {
        "plan": choice.best and _plan(choice.best),
        "runner_up": choice.runner_up and _plan(choice.runner_up),
        "decides": decides and decides.part,
        "decides_s": decides and decides.seconds,
        "n_tried": choice.n_tried,
        "n_too_large": choice.n_too_large,
        "too_large": choice.too_large and _plan(choice.too_large),
    }


def _plan(timed: TimedPlan) -> Record:
    plan, settings = timed.candidate
    train = settings.phase == "train"
    of_batch = {"grad_accum": settings.grad_accum, "recompute": settings.recompute} if train else {}
    return {
        **plan.inputs(),
        "batch_size": settings.batch_size,
        **of_batch,
        "options": _options(timed),
        "time_s": timed.seconds,
        **{f"{name}_s": seconds for name, seconds in timed.parts.items()},
    }


def _options(timed: TimedPlan) -> str:
    plan, settings = timed.candidate
    options = [plan_options(plan)] * (plan.devices > 1)
    if settings.phase == "train":
        options.append(f"-b {settings.batch_size}")
        options += [f"--grad-accum {settings.grad_accum}"] * (settings.grad_accum > 1)
        options += [f"--recompute {settings.recompute}"] * (settings.recompute != "none")
    return " ".join(options) or "one device"


def _sentences(choice: PlanChoice) -> Iterator[str]:
    best, runner_up, decides = choice.best, choice.runner_up, choice.decides
    if best is None:
        return
    yield f"The fastest of {choice.n_tried:,} plans that fits: {_options(best)}."
    if runner_up is not None and decides is not None:
        times, options = in_one_unit(best.seconds, runner_up.seconds, " against "), _options(runner_up)
        yield f"It takes {times} of the runner-up, {options}; the main difference is {decides.part}."
    if choice.too_large is not None:
        others = choice.n_too_large - 1
        more = f", as up to {others:,} other plan{'' if others == 1 else 's'} may be" if others else ""
        yield f"Faster, but too large: {_options(choice.too_large)}{more}."
