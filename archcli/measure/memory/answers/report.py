"""The report of `archcli memory`: the peak, what it is made of, what is kept, and what would fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from archcli.measure.memory.answers.changes import alternatives, cheapest_change
from archcli.measure.memory.answers.fit import Fit, fit
from archcli.measure.memory.answers.kept_rows import folded_rows, kept_rows
from archcli.measure.memory.answers.question import MemoryAnswer, MemoryQuestion
from archcli.measure.memory.answers.serve_table import serve_table
from archcli.measure.memory.moments import PARTS, highest
from archcli.measure.memory.ranks import RankPeak
from archcli.measure.report import Column, Report, Table

Record = dict[str, Any]
CONVENTION = (
    "Bytes of tensors at the moment when most are alive, as torch 2.13 runs the model that archcli builds; "
    "autocast is not modelled. What is beyond the model is not part of the peak."
)
CACHE_TWICE = "The caller owns the cache: the one before the pass lives until the longer one is whole."
ENGINES = "Serving: the cache counts once, as engines write into one that is there already."
DDP = "dp without zero is DDP with gradient_as_bucket_view, which holds no second copy of the gradients."
ROWS = 12
LABELS = {"kept": "kept for the backward", "optimizer": "optimizer states", "gathered": "gathered of others"}
KEYS = ("path", "kept_bytes", "shared_with", "recompute_flops", "freed_bytes_per_flop")


def count_memory(
    question: MemoryQuestion,
    *,
    what_fits: Fit | None = None,
    show_alternatives: bool = False,
    tell: Callable[[str], None] = lambda text: None,  # noqa: ARG005
) -> Report:
    """The report of `archcli memory`. `tell` hears of each attempt of `what_fits`."""
    answer = question.answer()
    found = None if what_fits is None else fit(question, what_fits, tell)
    rows = kept_rows(question.model, answer.largest.traced)
    totals = _totals(question, answer, found)
    tables = [
        *_tables(answer, totals, rows),
        *(alternatives(question) if show_alternatives else ()),
        *serve_table(question),
    ]
    return Report(
        command="memory",
        model={"name": question.model.name, "source": question.model.source},
        inputs=_inputs(question),
        convention=CONVENTION,
        totals=totals,
        rows=rows,
        tables=tuple(tables),
        notes=tuple(_notes(question, totals)),
        usual={"phase": "train", "batch_size": 1, "dtype": "bf16", "backend": "cuda", "grad_accum": 1},
        keys=KEYS,
    )


def _inputs(question: MemoryQuestion) -> Record:
    settings, plan, device = question.settings, question.plan, question.device
    train = settings.phase == "train"
    of_training = ("optimizer", "recompute", "loss", "grad_accum")
    names = ("phase", "batch_size", "dtype", "attention", "backend", *(of_training if train else ("chunk",)))
    return {
        **{name: getattr(settings, name) for name in names},
        "seq_len": settings.tokens(question.model),
        **({} if plan.devices == 1 else {"plan": plan.inputs()}),
        **({} if device is None else {"device": device.name, "memory_bytes": device.memory_bytes}),
    }


def _totals(question: MemoryQuestion, answer: MemoryAnswer, found: Record | None) -> Record:
    largest, device = answer.largest, question.device
    fits = None if device is None else answer.needed_bytes <= device.memory_bytes
    return {
        "peak_bytes": answer.peak_bytes,
        "moment": largest.peak.stage,
        "path": largest.peak.path,
        "parts": {name: int(size) for name, size in largest.peak.parts.items()},
        "beyond_bytes": answer.beyond.bytes,
        "kept_bytes": int(largest.traced.ledger.kept),
        "ranks": [_rank(rank) for rank in answer.ranks],
        "fits": fits,
        "fit": found,
        "change": cheapest_change(question) if fits is False else None,
    }


def _rank(rank: RankPeak) -> Record:
    parts = {name: int(size) for name, size in rank.peak.parts.items()}
    return {"rank": rank.rank, "stage": rank.stage, "peak_bytes": int(rank.peak.bytes), "parts": parts}


def _tables(answer: MemoryAnswer, totals: Record, rows: list[Record]) -> Iterator[Table]:
    yield _peak_table(answer, totals)
    if len({rank.stage for rank in answer.ranks}) > 1:
        yield _rank_table(answer)
    else:
        yield _moment_table(answer)
    if rows:
        yield _kept_table(rows)


def _peak_table(answer: MemoryAnswer, totals: Record) -> Table:
    peak = answer.largest.peak
    while_running = f", while {peak.path} runs" if peak.path else ""
    records = [
        {
            "what": LABELS.get(name, name),
            "bytes": totals["parts"][name],
            "share": totals["parts"][name] / answer.peak_bytes,
        }
        for name in PARTS
        if totals["parts"][name]
    ]
    records += [
        {"what": f"beyond the model: {part.label}", "bytes": part.bytes, "share": None}
        for part in answer.beyond.parts
    ]
    columns = (Column("what", "what"), Column("bytes", "bytes", "bytes"), Column("share", "share", "share"))
    footer = {"what": "peak, without what is beyond", "bytes": answer.peak_bytes, "share": 1.0}
    return Table(f"peak: {peak.stage}{while_running}", columns, records, footer)


def _moment_table(answer: MemoryAnswer) -> Table:
    stages = dict.fromkeys(moment.stage for moment in answer.largest.moments)
    of_stage = [highest(m for m in answer.largest.moments if m.stage == stage) for stage in stages]
    records = [{"moment": m.stage, "path": m.path, "bytes": int(m.bytes)} for m in of_stage]
    columns = (Column("moment", "moment"), Column("path", "while it runs"), Column("bytes", "peak", "bytes"))
    return Table("the highest point of each moment", columns, records)


def _rank_table(answer: MemoryAnswer) -> Table:
    records = [
        {"rank": rank.rank, "stage": rank.stage, "moment": rank.peak.stage, "bytes": int(rank.peak.bytes)}
        for rank in answer.ranks
    ]
    columns = (
        Column("stage", "stage", "number"),
        Column("rank", "rank", "number"),
        Column("moment", "at"),
        Column("bytes", "peak", "bytes"),
    )
    return Table("ranks", columns, records)


def _kept_table(rows: list[Record]) -> Table:
    records = [
        {
            **row,
            "mb_per_gflop": _mb_per_gflop(row["freed_bytes_per_flop"]),
        }
        for row in folded_rows(rows)[:ROWS]
    ]
    columns = (
        Column("path", "kept for the backward, made by"),
        Column("kept_bytes", "bytes", "bytes"),
        Column("mb_per_gflop", "MB freed per GFLOP", "number"),
    )
    return Table("what to recompute first", columns, records)


def _mb_per_gflop(bytes_per_flop: float | None) -> float | None:
    return None if bytes_per_flop is None else round(bytes_per_flop * 1e3, 3)


def _notes(question: MemoryQuestion, totals: Record) -> Iterator[str]:
    settings, plan, device = question.settings, question.plan, question.device
    if settings.phase in {"prefill", "decode"} and question.model.caches:
        yield CACHE_TWICE
    if settings.phase == "serve":
        yield ENGINES
    if plan.dp > 1 and not plan.zero and settings.phase == "train":
        yield DDP
    if device is None:
        return
    if totals["fits"]:
        yield f"It fits into {device.name}."
    elif totals["change"]:
        yield f"It does not fit into {device.name}; with {totals['change']['change']} it would."
    else:
        yield f"It does not fit into {device.name}, and no one option would do: ask --fit devices."
