"""The report of `archcli memory`: the peak, its parts, kept bytes, and changes that would fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from archcli.errors import ArchError
from archcli.measure.kvcache.engine import CACHING, NO_ENGINE
from archcli.measure.notes import media_table
from archcli.measure.report import LateTables, Report, Table
from archcli.units import binary_bytes
from archcli.wings.serving.memory.answers import tables
from archcli.wings.serving.memory.answers.changes import cheapest_change
from archcli.wings.serving.memory.answers.headline import fit_notes, headline, serving_record
from archcli.wings.serving.memory.answers.question import (
    Fit,
    MemoryAnswer,
    MemoryQuestion,
    check_question,
    question_notes,
)
from archcli.wings.serving.memory.answers.recomputations import kept_rows
from archcli.wings.serving.memory.answers.tables import title
from archcli.wings.serving.memory.answers.verdict import (
    margin_bytes,
    reserved_note,
    reserved_totals,
    tight_note,
    verdict_of,
)
from archcli.wings.serving.memory.beyond.drafts import draft_note
from archcli.wings.serving.memory.plan import DeviceMemory
from archcli.wings.serving.memory.ranks import RankPeak
from archcli.wings.serving.memory.traced import MemoryMoment, highest

Record = dict[str, Any]
T = TypeVar("T")
PEAK = "The peak: bytes of all live tensors at their maximum,"
OF_TORCH = "as torch 2.13 runs the model that archcli builds, without autocast."
OF_ENGINE = (
    "as {title} runs the model: its cache, chunks and fused kernels (`archcli engines {name}`), and kernels "
    "of torch 2.13 elsewhere."
)
OF_TRAINER = "as {title} {version} runs the model (`archcli trainers {name}`), by kernels of torch 2.13."
PEFT = "`--trainer peft` counts what modules of transformers and PEFT hold, which is more."
BEYOND = "Memory beyond the model is not part of it."
WIRED = 1.08
"""What a Mac can give above Metal's share by default, of 512 GB as of 16; the rest is macOS's."""
KEYS = ("path", "kept_bytes", "shared_with", "recompute_flops", "freed_bytes_per_flop")


def count_memory(
    question: MemoryQuestion,
    *,
    what_fits: Fit | None = None,
    show_alternatives: bool = False,
    tell: Callable[[str], None] = lambda text: None,  # noqa: ARG005
    devices: Sequence[DeviceMemory] = (),
    serving: MemoryQuestion | None = None,
    measured: tuple[str, int] | None = None,
) -> Report:
    """The report of `archcli memory`. `tell` hears of each attempt of `what_fits`.

    `devices` are those that `what_fits="devices"` asks about where the question names none; `serving` is the
    same question about serving, to be answered in a line. Raises ArchError for a question without an answer.
    """
    check_question(question)
    fitting = FitSearch(what_fits, tell, devices)
    report = _known(lambda: _report(question, fitting, serving, more=show_alternatives))
    return report if measured is None else _with_measured(report, question, measured)


def _with_measured(report: Report, question: MemoryQuestion, measured: tuple[str, int]) -> Report:
    """The report that begins with what would explain measured bytes."""
    # asked for by name
    from archcli.wings.serving.memory.answers.measured_bytes import measured_lines, measured_record

    record = measured_record(question, *measured)
    lines = (*measured_lines(record), report.headline)
    return replace(report, totals={**report.totals, "measured": record}, headline="\n".join(lines))


def _known(make: Callable[[], T]) -> T:
    """What `make` returns. Raises ArchError for an operation of one's own that calls what is not known."""
    try:
        return make()
    except NotImplementedError as error:
        raise ArchError(str(error), "its memory is not known: `Op.kept` would state it") from None


class FitSearch(NamedTuple):
    """A search for what fits: who hears of each attempt, and the devices that are tried."""

    what: Fit | None
    tell: Callable[[str], None]
    devices: Sequence[DeviceMemory]

    def result(self, question: MemoryQuestion) -> Record | None:
        """What fits; None where nothing is asked."""
        if self.what is None:
            return None
        from archcli.wings.serving.memory.answers.fit import fit  # asked for by name

        return fit(question, self.what, self.tell, self.devices)


def _report(
    question: MemoryQuestion, fitting: FitSearch, serving: MemoryQuestion | None, *, more: bool
) -> Report:
    answer = question.answer()
    fitted = fitting.result(question)
    rows = kept_rows(question.model, answer.largest.traced)
    totals = _totals(question, answer, fitted)
    if serving is not None:
        totals["serving"] = serving_record(serving)
    return Report(
        command="memory",
        model={"name": question.model.name, "source": question.model.source},
        inputs=_inputs(question),
        convention=_convention(question),
        totals=totals,
        rows=rows,
        # that of serving traces further contexts, and json shows none
        tables=LateTables(lambda: _known(lambda: tuple(_tables(question, answer, totals, rows, more)))),
        notes=tuple(_notes(question, totals, fitting.what)),
        keys=KEYS,
        title=title(question),
        headline=headline(question, totals),
    )


def _convention(question: MemoryQuestion) -> str:
    """What the peak is, and what runs the model."""
    engine, trainer = question.settings.engine or NO_ENGINE, question.settings.trainer
    if trainer is not None:
        named = {"name": trainer.name, "title": trainer.title, "version": trainer.version}
        return f"{PEAK} {OF_TRAINER.format(**named)} {BEYOND}"
    served = question.settings.phase in CACHING and engine.name != NO_ENGINE.name
    return f"{PEAK} {OF_ENGINE.format(name=engine.name, title=engine.title) if served else OF_TORCH} {BEYOND}"


def _tables(
    question: MemoryQuestion, answer: MemoryAnswer, totals: Record, rows: list[Record], more: bool
) -> Iterator[Table]:
    yield tables.peak_table(totals)
    if "media" in totals:
        yield media_table(totals["media"], totals["prompt_tokens"])
    if len({rank.stage for rank in answer.ranks}) > 1:
        yield tables.rank_table(totals["ranks"])
    if totals["fit"] and "devices" in totals["fit"]:
        yield tables.device_table(totals["fit"]["devices"])
    elif rows:
        yield tables.kept_table(rows)
    if more:
        from archcli.wings.serving.memory.answers.changes import alternatives  # asked for by name

        yield tables.moment_table(totals["moments"])
        yield from alternatives(question)
    if question.settings.phase == "serve" and question.device is not None:
        from archcli.wings.serving.memory.answers.tables import serve_table  # of serving alone

        yield from serve_table(question)


def _inputs(question: MemoryQuestion) -> Record:
    settings, plan, device = question.settings, question.plan, question.device
    train = settings.phase == "train"
    of_training = ("optimizer", "recompute", "loss", "grad_accum", "gradients")
    names = ("phase", "batch_size", "dtype", "attention", "backend", *(of_training if train else ("chunk",)))
    of_device: Record = {"device": device and device.name, "memory_bytes": device and device.memory_bytes}
    engine = settings.engine or NO_ENGINE
    of_engine: Record = {"engine": engine.name}
    if settings.phase in CACHING:
        of_engine["kv_dtype"] = settings.cache_dtype or settings.dtype
    if settings.phase == "serve":
        of_engine["new"] = settings.new
    if engine.adapters:
        of_engine["adapters"] = engine.adapters
    if question.draft is not None:
        of_engine["draft"] = question.draft.name
    if device is not None and settings.phase in CACHING:
        of_device["utilization"] = device.utilization
    return {
        **{name: getattr(settings, name) for name in names},
        "dtype": question.model.stored_as or settings.dtype,
        **of_engine,
        **({"gradients": settings.gradients or settings.trained or settings.dtype} if train else {}),
        **({} if settings.trainer is None else {"trainer": settings.trainer.name}),
        "seq_len": settings.tokens(question.model),
        "source_len": question.model.source_length(settings.source(question.model)),
        "plan": plan.inputs(),
        **({} if settings.offload is None else {"offload": settings.offload.inputs()}),
        **({} if device is None else {**of_device, "n_devices": device.n_devices}),
        **({"as_published": True} if question.model.is_as_published else {}),
    }


def _totals(question: MemoryQuestion, answer: MemoryAnswer, fitted: Record | None) -> Record:
    largest, device = answer.largest, question.device
    fits = None if device is None else answer.fits(device)
    return {
        "peak_bytes": answer.peak_bytes,
        "moment": largest.peak.stage,
        "path": largest.peak.path,
        "parts": _parts(largest.peak),
        "beyond_bytes": answer.beyond.bytes,
        "beyond": [
            {"label": part.label, "bytes": part.bytes, "least_bytes": part.least_bytes, "source": part.source}
            for part in answer.beyond.parts
        ],
        "kept_bytes": int(largest.kept),
        "moments": list(_moments(largest)),
        "ranks": [{**_rank(rank), **_of_device(rank, answer, device)} for rank in answer.ranks],
        "fits": fits,
        "verdict": verdict_of(question, answer),
        "margin_bytes": margin_bytes(question, answer),
        "fit": fitted,
        "change": cheapest_change(question) if fits is False else None,
        **question.offload_totals(answer),
        **reserved_totals(question, answer),
        **({} if question.draft is None else {"draft": question.draft_totals()}),
        **_of_towers(question),
    }


def _of_towers(question: MemoryQuestion) -> Record:
    """What towers take; empty for a language model alone."""
    if not question.model.towers:
        return {}
    from archcli.wings.serving.memory.answers.beside_towers import tower_totals  # of towers alone

    return tower_totals(question)


def _parts(moment: MemoryMoment) -> Record:
    return {name: int(size) for name, size in moment.parts.items()}


def _rank(rank: RankPeak) -> Record:
    return {
        "rank": rank.rank,
        "stage": rank.stage,
        "peak_bytes": int(rank.peak.bytes),
        "moment": rank.peak.stage,
        "parts": _parts(rank.peak),
    }


def _of_device(rank: RankPeak, answer: MemoryAnswer, device: DeviceMemory | None) -> Record:
    """The device of a rank, its memory and whether the rank fits into it; nothing of equal devices."""
    if device is None or not device.unlike:
        return {}
    card = device.of_stage(rank.stage)
    fits = int(rank.peak.bytes) + answer.beyond.bytes <= card.memory_bytes
    return {"device": card.name, "memory_bytes": card.memory_bytes, "fits": fits}


def _moments(rank: RankPeak) -> Iterator[Record]:
    """The highest point of each moment: forward, loss, backward and so on."""
    for stage in dict.fromkeys(moment.stage for moment in rank.moments):
        top = highest(moment for moment in rank.moments if moment.stage == stage)
        yield {"moment": stage, "path": top.path, "peak_bytes": int(top.bytes), "parts": _parts(top)}


def _notes(question: MemoryQuestion, totals: Record, what_fits: Fit | None) -> Iterator[str]:
    yield from question_notes(question)
    if question.settings.phase == "train" and question.settings.trainer is None and question.model.lora:
        yield PEFT
    if question.settings.trainer is not None:
        yield from question.settings.trainer.not_compared(
            question.model, question.answer().largest.traced.rows
        )
    if "towers" in totals:
        from archcli.wings.serving.memory.answers.beside_towers import tower_notes  # of towers alone

        yield from tower_notes(question, totals["towers"])
    if "offload" in totals:
        from archcli.wings.serving.memory.answers.offloading import offload_notes  # of an offload alone

        yield from offload_notes(question, totals["offload"])
    if "reserved" in totals:
        yield reserved_note(question, totals["reserved"])
    if question.draft is not None:
        yield draft_note(totals["draft"])
    if totals["beyond"]:
        names = ", ".join(part["label"] for part in totals["beyond"])
        size = binary_bytes(totals["beyond_bytes"])
        yield f"Beyond the model: up to {size} more ({names}), an estimate; `--json` has the sources."
    if totals["verdict"] == "tight":
        yield tight_note(question, question.answer())
    yield from _of_macs(question.device, totals)
    yield from fit_notes(question, totals, what_fits)


def _of_macs(device: DeviceMemory | None, totals: Record) -> Iterator[str]:
    """The limit that a Mac can raise, where it decides."""
    if device is None or device.family != "metal" or totals["fits"]:
        return
    needed = totals["peak_bytes"] + totals["beyond_bytes"]
    if device.memory_bytes < needed <= WIRED * device.memory_bytes:
        raised = f"`sudo sysctl iogpu.wired_limit_mb={-(-needed // 2**20)}`"
        yield f"macOS gives that by default; {raised} gives more until a restart."
