"""The search that answers a sweep, and the files that it writes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from shlex import quote
from time import perf_counter

from archcli.api.asking.subject import Subject
from archcli.load.spec.written import to_yaml
from archcli.measure.report import Report
from archcli.modules import Model
from archcli.render.write import check_new_files, write_new_files
from archcli.wings.shapes.api.sweep_question import SweepOptions, as_folder, built_sweep
from archcli.wings.shapes.symbolic.candidates import CHUNK
from archcli.wings.shapes.symbolic.shapes.report import best_models, sweep_report
from archcli.wings.shapes.symbolic.shapes.search import (
    PartOutcome,
    SweepPart,
    SweepQuestion,
    Tick,
    no_tick,
    parts_of,
    search,
    search_part,
)
from archcli.wings.shapes.symbolic.varied import keep_freed_memory

FEW = 1024
"""Candidates of a part whose figures are read one by one."""


def swept(base: Subject, options: SweepOptions, tick: Tick = no_tick) -> Report:
    """The report of a sweep of a loaded model, whose best candidates are written into a folder, if any."""
    start, folder = perf_counter(), as_folder(options.write_yaml)
    base = base.without_towers()
    built = built_sweep(base.model, options)
    names = []
    if folder is not None:
        names = file_names(base.name, min(options.top, built.question.candidates))
        # before the search, which may take minutes
        check_new_files(folder, names)
    outcome = search(built.question, tick, _outcomes(built.question, base.model, options))
    report = sweep_report(built.question, outcome, built.inputs(options), perf_counter() - start)
    if folder is not None:
        models = best_models(built.question, outcome)
        # not strict: fewer candidates may match than there are names
        named = {
            name: model.replace(name=Path(name).stem) for name, model in zip(names, models, strict=False)
        }
        write_new_files(folder, {name: to_yaml(model) for name, model in named.items()})
        written = f"{len(named):,} YAML file{'s are' if len(named) != 1 else ' is'} in {folder}"
        first = "".join(
            f"; for transformers: archcli export {quote(str(folder / it))}" for it in [*named][:1]
        )
        written += first or "."
        report = replace(report, notes=(*report.notes, written))
    return base.named(report)


def _outcomes(question: SweepQuestion, base: Model, options: SweepOptions) -> Iterator[PartOutcome] | None:
    """The outcome of each part from other processes; None where this process searches."""
    if not options.spreads:
        return None
    size = FEW if question.terms[1] else CHUNK
    return options.answers(_searching, (base, options), parts_of(question, size))


def _searching(base: Model, options: SweepOptions) -> Callable[[SweepPart], PartOutcome]:
    """What searches parts in another process: expressions are read anew there."""
    keep_freed_memory()
    return partial(search_part, built_sweep(base, options).question)


def file_names(name: str, top: int) -> list[str]:
    """The names of YAML files of the best candidates, in their order."""
    stem = re.sub(r"[^\w.-]+", "-", name).strip("-.") or "model"
    width = len(str(top))
    return [f"{stem}-{i:0{width}}.yaml" for i in range(1, top + 1)]
