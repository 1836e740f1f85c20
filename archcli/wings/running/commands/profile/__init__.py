"""`archcli profile`: measure on this machine where the time of one pass goes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from archcli.api.asking.modules import ModuleOptions, of_any
from archcli.api.asking.options import Dp, Tp
from archcli.api.asking.question import Option, count_option
from archcli.api.asking.subject import INTERRUPTED, subject
from archcli.commands.line.options import Form, Json, Output, Set, asking
from archcli.errors import ArchError, Problem
from archcli.measure.report import Report
from archcli.modules.spec.values import Interval
from archcli.render import chosen_format, show
from archcli.render.write import STDOUT, check_writable, descriptor, write, write_data
from archcli.wings.running.api.profile import ProfileOptions, check_against, measured
from archcli.wings.running.commands.profile.launch import launch_of
from archcli.wings.running.commands.profile.processes import in_processes, keep_large_blocks
from archcli.wings.running.recording.recording import Recording

RepeatProcess = Annotated[
    int | None,
    Interval(ge=2),
    count_option("Measure in N fresh processes, one after another, and show medians with their range."),
]
Allocator = Annotated[
    Literal["reuse", "system"],
    Option("reuse restarts Python with glibc keeping large blocks, which saves the time of page faults."),
]
Plot = Annotated[
    Path | None,
    Option("Also draw it: an .svg or .html file; with resvg-py also a .png.", metavar="FILE"),
]
Trace = Annotated[
    Path | None,
    Option("Also write one traced pass for Perfetto, as .json or .json.gz.", metavar="FILE"),
]


@asking(ProfileOptions, ModuleOptions)
def run(  # noqa: PLR0913
    options: ProfileOptions,
    running: ModuleOptions,
    *,
    context: typer.Context,
    repeat_process: RepeatProcess = None,
    allocator: Allocator = "reuse",
    tp: Tp = 1,
    dp: Dp = 1,
    plot: Plot = None,
    trace: Trace = None,
    overrides: Set = None,
    form: Form = None,
    as_json: Json = False,
    output: Output = None,
) -> None:
    """Measure where the time of a pass goes on this machine.

    Builds the model with random weights, with --image or a sound its towers, too, times every operation of a
    pass, and sets time beside FLOPs and bytes. Training has no optimizer, and a loss if the model states one.

    A model that does not fit into memory is measured by kinds of layer and extrapolated, as with --per-kind.
    `archcli profile -- python train.py` measures the steps of a program of yours, unchanged; its own options
    stand before `--`, and `archcli profile -h --` describes them. Needs torch.
    With --tp or --dp it runs on several devices, a process each, which a launcher starts:
    `torchrun --no-python --nproc-per-node 2 archcli profile MODEL --tp 2`.

    Ctrl-C shows what was measured so far. Exits with 1 where an operation ran that the model does not account
    for, or where the trace of a GPU lacks kernels.
    """
    extra = {"set": overrides, "plot": plot, "trace": trace, "repeat_process": repeat_process}
    extra |= {"allocator": allocator != "reuse", "tp": tp > 1, "dp": dp > 1}
    report = of_any("profile", options, running, extra, lambda: _measured(options, context))
    show(report, form, output, as_json=as_json)
    raise typer.Exit(_exit_code(report))


def _measured(options: ProfileOptions, context: typer.Context) -> Report:
    """The report of an architecture, its files written; `context` holds the options that the record lacks."""
    params = context.params
    plot, trace, processes = params["plot"], params["trace"], params["repeat_process"]
    launch = launch_of(context, params["tp"], params["dp"])
    _check_files(params)
    check_against(params)
    if processes is not None:
        report = in_processes(context, processes)
        _write_files(report, None, plot, None)
        return report
    keep_large_blocks(params["allocator"], options.device)
    overrides = params["overrides"] or []
    try:
        profiled = measured(
            lambda more: subject(options.model, [*overrides, *more]), options, launch, trace=trace is not None
        )
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    _write_files(profiled.report, profiled.recording, plot, trace)
    return profiled.subject.named(profiled.report)


def _exit_code(report: Report) -> int:
    """1 if any model's trace lacked kernels or had unexpected operations, else 0, as of a module."""
    totals = report.totals
    if "partial" not in totals:
        return 0
    if totals["partial"]:
        return INTERRUPTED
    models = totals.get("variants", [totals])
    return int(any(model["operations_differing"] or model["launches_lost"] for model in models))


def _check_files(options: Mapping[str, Any]) -> None:
    """Raise ArchError, before anything is measured, for formats and files that could not be written."""
    plot, trace, output = (options[name] for name in ("plot", "trace", "output"))
    chosen_format(options["form"], output, as_json=options["as_json"])
    if options["vs"] and (plot or trace):
        raise ArchError(
            "--vs compares: there is no picture and no trace of it", "leave --plot and --trace out, or --vs"
        )
    if plot is not None:
        from archcli.render.picture.files import check_picture

        check_picture(plot)
    if trace is not None and descriptor(trace) is None and not trace.name.endswith((".json", ".json.gz")):
        what = f"{trace.name} ends in neither .json nor .json.gz"
        raise ArchError(Problem(what, "Perfetto reads both", path=str(trace)))
    for file in (trace, output):
        check_writable(file)
    _check_apart([place for place in (plot, trace) if place is not None] + [output])


def _check_apart(places: Sequence[Path | None]) -> None:
    """Raise ArchError where two of the report, the picture and the trace would go to one place."""
    targets = [descriptor(place) or os.path.realpath(place or "") for place in places]
    for i, target in enumerate(targets):
        if target in targets[:i]:
            name = "standard output" if target == STDOUT else str(places[i])
            raise ArchError(
                f"{name} would get two of the report, the picture and the trace", "name two files"
            )


def _write_files(report: Report, recording: Recording | None, plot: Path | None, trace: Path | None) -> None:
    """Write the files that were asked for; a trace is of one recording."""
    if plot is not None:
        from archcli.render.data import document
        from archcli.wings.running.pictures.profile.files import save

        save(document(report), plot)
    if trace is not None and recording is not None:
        _write_trace(recording, trace)


def _write_trace(recording: Recording, file: Path) -> None:
    import gzip
    import json

    text = json.dumps(recording.trace, separators=(",", ":"))
    if file.name.endswith(".gz"):
        # mtime=0: gzip would write the time of day, and one trace give two files
        write_data(gzip.compress(text.encode(), mtime=0), file)
    else:
        write(text, file)
