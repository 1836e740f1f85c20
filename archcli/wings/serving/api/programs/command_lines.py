"""Command lines of engines: one that serves what a question counts, and one that measures it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import floor
from typing import TYPE_CHECKING, Any

from archcli.errors import ArchError
from archcli.measure.kvcache.engine import NO_ENGINE
from archcli.measure.report import Report
from archcli.modules.models.layers import layer_count
from archcli.modules.stored.formats import PAIR
from archcli.wings.serving.devices.engines import load_engine
from archcli.wings.serving.launches.memory.trainer import texts_of
from archcli.wings.serving.memory.offload import Offload
from archcli.wings.serving.memory.plan import Plan

if TYPE_CHECKING:
    from archcli.api.asking.subject import Subject
    from archcli.wings.serving.memory.answers.question import MemoryQuestion

HUB = "https://huggingface.co/"
REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)
"""A repository of the hub, Qwen/Qwen3-8B."""
ALWAYS = ("context", "tokens", "placed", "prompt", "new", "depth", "concurrency", "prompts")
"""Options that are said even where they are 1."""
NEW = 128
"""Tokens that a measurement makes of each sequence, where the question states none."""
PROMPT = 512
"""Tokens of a prompt behind cached ones, whose speed llama-bench measures."""
REPEATED = 8
"""Requests of a measurement for each sequence at once."""
CHANGING = ("dp", "tp", "pp", "ep", "dp_attention", "kv_dtype", "utilization", "adapters")
"""Options that change the bytes; a note says those that a command leaves out."""


def serve_command(question: MemoryQuestion, place: str = "") -> str | None:
    """The command line by which the engine serves what was counted; None of an engine without one.

    place: a repository of the hub or a GGUF file with the weights, where it is known: `Qwen/Qwen3-8B`. What
    is not known stands in angle brackets.
    """
    return _line(question, "command", _options(question, place))


def check_command(question: MemoryQuestion, place: str = "", cached: int | None = None) -> str | None:
    """The command line that measures the speed of what was counted, with so many cached tokens at most."""
    return _line(question, "check", _options(question, place, cached))


def with_command(report: Report, question: MemoryQuestion | None, subject: Subject, options: Any) -> Report:
    """The report with the engine's command lines, where they are asked for; `question` None: nothing fits.

    Raises ArchError for an engine without any.
    """
    if not options.command or question is None or question.settings.trainer is not None:
        return report
    question, place = _fitted(question, report.totals.get("fit") or {}), place_of(subject, options.model)
    engine = question.settings.engine or NO_ENGINE
    serve = serve_command(question, place)
    if serve is None:
        what = f"--command is of an engine that serves or of a trainer, and {engine.title} has none"
        raise ArchError(what, "--phase serve --engine vllm, or --phase train --trainer trl")
    check = check_command(question, place, report.totals.get("speed_at"))
    notes = [f"Serve it with {engine.title} ({load_engine(engine.name)['version']}): `{serve}`."]
    notes += [f"Measure its speed: `{check}`."] if check else []
    notes += ["What stands in <> is yours to fill in."] if "<" in serve else []
    notes += _unsaid(question, place)
    totals = {**report.totals, "commands": {"serve": serve, "check": check}}
    return replace(report, totals=totals, notes=(*notes, *report.notes))


def _fitted(question: MemoryQuestion, fit: Mapping[str, Any]) -> MemoryQuestion:
    """The question with what --fit found: the batch, the context or the plan."""
    plan = {name: fit.get("plan", {}).get(name, value) for name, value in question.plan.inputs().items()}
    sizes = {name: fit[name] for name in ("batch_size", "seq_len") if name in fit}
    return replace(question.changed(**sizes), plan=Plan(**plan))


def place_of(subject: Subject, model: Any) -> str:
    """The repository of the hub or the GGUF file that a model was named by; empty for neither."""
    if subject.source.endswith(".gguf"):
        return subject.source
    name = str(model).removeprefix("hf://")
    return name if REPOSITORY.fullmatch(name) and not subject.source.startswith(name) else ""


def _line(question: MemoryQuestion, what: str, options: Mapping[str, Any]) -> str | None:
    """A command line in the engine's words; None of an engine without it, and where it has no program."""
    texts = dict(texts_of(_arguments(question, what), options, ALWAYS))
    program, *_ = texts.values() or [""]
    return " ".join(filter(None, texts.values())) if program and not program.startswith("-") else None


def _arguments(question: MemoryQuestion, what: str) -> Mapping[str, str]:
    texts: Mapping[str, str] = load_engine((question.settings.engine or NO_ENGINE).name).get(what, {})
    return texts


def _unsaid(question: MemoryQuestion, place: str) -> Iterator[str]:
    """A note on what was counted and the command does not say."""
    options = _options(question, place)
    said = {*dict(texts_of(_arguments(question, "command"), options, ALWAYS))}
    left = [name for name in CHANGING if str(options[name]) not in {"1", "None"} and name not in said]
    if left:
        named = ", ".join(f"--{name.replace('_', '-')} {options[name]}" for name in left)
        title = (question.settings.engine or NO_ENGINE).title
        yield f"The command leaves out {named}: {title} has no option for it that archcli knows."


def _options(question: MemoryQuestion, place: str, cached: int | None = None) -> dict[str, Any]:
    """What was counted, by the names that files of engines have words for."""
    settings, plan, lora = question.settings, question.plan.inputs(), question.model.lora
    context, sequences = int(settings.context(question.model)), int(settings.batch_size)
    new = int(settings.new) or max(min(NEW, context // 2), 1)
    prompt = max(min(cached or context, context - new), 1)
    adapters = (settings.engine or NO_ENGINE).adapters or None
    cache = None if settings.cache_dtype == settings.dtype else settings.cache_dtype
    keys, _, values = (cache or "None").partition(PAIR)
    return {
        **_of_weights(question, place),
        **_of_devices(question),
        **{name: plan[name] for name in ("dp", "tp", "pp", "ep", "dp_attention")},
        "context": context,
        "tokens": context * sequences,
        "sequences": int(question.plan.of_replica(settings).batch_size),
        "requests": -(-sequences // question.plan.dp),
        "chunk": settings.chunk,
        "dtype": settings.dtype,
        "kv_dtype": cache,
        "keys": keys,
        "values": values or keys,
        "adapters": adapters,
        "rank": lora.rank if adapters and lora else None,
        "prompt": prompt,
        "new": new,
        "depth": max(min(prompt, context - PROMPT), 0),
        "concurrency": sequences,
        "prompts": REPEATED * sequences,
    }


def _of_devices(question: MemoryQuestion) -> dict[str, Any]:
    """The share of a device's memory, and what lies on each device; `stage` are those that share experts."""
    settings, device, stage = question.settings, question.device, question.plan.dp * question.plan.tp
    offload = settings.offload or Offload()
    on_cpu = device is not None and device.family == "cpu"
    return {
        # rounded down to what people write
        "utilization": None if device is None else f"{floor(device.utilization * 1000 + 1e-6) / 1000:g}",
        "placed": 0 if on_cpu else layer_count(question.model) + 1 - offload.layers,
        "cpu_experts": offload.expert_layers if offload.experts else None,
        "split": "/".join(f"{size >> 20}" for size in settings.split) or None,
        "stage": stage if stage > 1 else None,
    }


def _of_weights(question: MemoryQuestion, place: str) -> dict[str, str | None]:
    """Where the weights are: a checkpoint, a GGUF file, or a repository of such files."""
    model = question.model
    is_file, in_files = place.endswith(".gguf"), "gguf" in place.lower()
    source = model.source.removeprefix(HUB) if model.source.startswith(HUB) else ""
    known = source if in_files else place or source
    stored = "" if model.is_as_published else model.stored_as
    stored = "" if stored.partition("-")[0] in known.lower() else stored  # Qwen/Qwen3-8B-AWQ has it
    # an engine with words for the format makes it of the published weights
    is_there = not stored or f"stored {stored}" in _arguments(question, "command")
    wanted = f"<{known or model.name}{f' in {stored}' * (not is_there)}>"
    form = (model.stored_as or question.settings.dtype).upper().replace("-", "_")
    file = shlex.quote(place) if is_file else f"<{model.name}-{form}.gguf>"
    return {
        "checkpoint": shlex.quote(known) if known and is_there else wanted,
        "file": None if in_files and not is_file else file,
        "towers": f"<{model.name}-mmproj.gguf>" if model.towers else None,
        "repository": f"{place}:{form}" if in_files and not is_file else None,
        "stored": stored or None,
    }
