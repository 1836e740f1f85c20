"""`archcli profile`: measure on this machine where the time of one pass goes."""

from __future__ import annotations

from dataclasses import replace
from typing import NoReturn

import typer

from archcli.commands.base import subject
from archcli.commands.options import Form, Json, Model, Output, Past, Set, SourceLen
from archcli.commands.profile.allocator import keep_large_blocks
from archcli.commands.profile.files import check_files, write_files
from archcli.commands.profile.kinds import cut_to, planned, profiled_by_kind
from archcli.commands.profile.measuring import INTERRUPTED, How, check_shares, checked, measured, needed
from archcli.commands.profile.options import (
    Allocator,
    Attention,
    BatchSize,
    Compile,
    Depth,
    Device,
    Dtype,
    HideLaunch,
    Layers,
    NoCeilings,
    Pairs,
    PerKind,
    PhaseOption,
    Plot,
    Refresh,
    RepeatProcess,
    SeqLen,
    Threads,
    Top,
    Trace,
    Vs,
)
from archcli.commands.profile.processes import in_processes
from archcli.commands.profile.variants import variants
from archcli.commands.profile.versus import compared
from archcli.measure.notes import source_notes
from archcli.measure.passes import checked_pass
from archcli.measure.profile.reports.one import profile_of
from archcli.measure.profile.workloads import workload_of
from archcli.measure.report import Report
from archcli.modules.request import Request


def run(  # noqa: PLR0913, PLR0917
    context: typer.Context,
    model: Model,
    phase: PhaseOption = None,
    batch_size: BatchSize = None,
    seq_len: SeqLen = None,
    past: Past = None,
    source_len: SourceLen = None,
    dtype: Dtype = "fp32",
    device: Device = "cpu",
    hide_launch: HideLaunch = False,
    threads: Threads = None,
    attention: Attention = None,
    compiled: Compile = False,
    pairs: Pairs = None,
    repeat_process: RepeatProcess = None,
    vs: Vs = None,
    allocator: Allocator = "reuse",
    layers: Layers = None,
    per_kind: PerKind = False,
    no_ceilings: NoCeilings = False,
    refresh: Refresh = False,
    plot: Plot = None,
    trace: Trace = None,
    depth: Depth = 0,
    top: Top = 15,
    overrides: Set = None,
    form: Form = None,
    as_json: Json = False,
    output: Output = None,
) -> None:
    """Measure where time goes: share of FLOPs, bytes and time side by side, by class of operation and by operator.

    Builds the model here with random weights, runs the pass and times every operation of it. A decoding pass is one new
    token after --past cached ones, after --seq-len of them where --past is left out. Training is forward and backward,
    without optimizer, and without a loss unless the model states one. A model that does not fit into memory is measured by
    kinds of layer and extrapolated, as any is with --per-kind; what does not fit even so is refused before anything is
    built. Ctrl-C shows what was measured so far. --vs times variants of the model against it, passes in turn. `ivanov` is
    the layer that Ivanov et al. 2021 measured, with their table. Exits with 1 where an operation ran that no row accounts
    for, or the trace of a GPU lacks kernels. Needs archcli[torch].
    """
    check_files(plot, trace, compares=bool(vs))
    if repeat_process is not None:
        _leave(in_processes(context, repeat_process))
    keep_large_blocks(allocator, device)
    usual = workload_of(model, compiled=compiled)
    phase, form_of = phase or usual.phase, attention or usual.attention
    how = How(
        dtype,
        device,
        form_of,
        threads,
        pairs,
        not no_ceilings,
        refresh,
        trace is not None,
        hide_launch,
        compiled,
    )
    request = Request(
        phase, batch_size or usual.batch_size, seq_len or usual.seq_len, past, source_len
    ).resolved()
    if vs:
        several = variants(model, overrides, how, vs)
        report = compared(several, request, {"phase": phase, **how.inputs()}, depth, top)
        several[0].subject.show(report, form, output, as_json=as_json)
        _leave(report)
    asked = cut_to(subject(model, overrides), layers, per_kind=per_kind)
    check_shares(asked.model, request)
    counted = checked_pass(asked.model, request)
    inputs = {"phase": phase, **counted.sizes(), **how.inputs(), "layers": layers}
    plan = planned(asked, counted, request, how, per_kind=per_kind) if layers is None else None
    if plan is None:
        recording, ceilings = measured(asked, counted, how, checked(asked.name, counted, how))
        report = usual.report(
            profile_of(asked.model, counted, recording, inputs, depth, top, ceilings), counted, recording
        )
    else:
        report, recording = profiled_by_kind(asked, counted, plan, how, inputs, (depth, top))
    memory = needed(counted, how)
    notes = (*source_notes(asked.model, source_len), *report.notes)
    report = replace(
        report,
        model={"name": asked.name, "source": asked.source},
        totals={**report.totals, "memory": memory},
        notes=notes,
    )
    write_files(report, recording, plot, trace)
    asked.show(report, form, output, as_json=as_json)
    _leave(report)


def _leave(report: Report) -> NoReturn:
    """End with the exit code of what was reported: of one model, or of several variants."""
    totals = report.totals
    amiss = any(
        one["operations_differing"] or one["launches_lost"] for one in totals.get("variants", [totals])
    )
    raise typer.Exit(INTERRUPTED if totals["partial"] else int(amiss))
