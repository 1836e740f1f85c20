"""`archcli profile`: measure on this machine where the time of one pass goes."""

from __future__ import annotations

import typer

from archcli.api.subject import INTERRUPTED, subject
from archcli.commands.line.options import Form, Json, Mla, Model, Output, Past, Scan, Set, SourceLen
from archcli.commands.line.plan_options import Dp, Tp
from archcli.commands.profile.against import PassPrediction, check_against
from archcli.commands.profile.by_kind import cut_to
from archcli.commands.profile.launch import launch_of, said_once
from archcli.commands.profile.one_model import profile_model
from archcli.commands.profile.options import (
    AgainstPrediction,
    Allocator,
    Attention,
    BatchSize,
    Calibrate,
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
from archcli.commands.profile.output_files import check_files, write_files
from archcli.commands.profile.processes import in_processes, keep_large_blocks
from archcli.commands.profile.settings import Detail, RunSettings
from archcli.commands.profile.versus import compare
from archcli.commands.profile.vs_changes import requested_variants
from archcli.measure.profile.workloads import workload_of
from archcli.measure.report import Report


def run(  # noqa: PLR0913, PLR0917
    context: typer.Context,
    model: Model,
    phase: PhaseOption = None,
    batch_size: BatchSize = None,
    seq_len: SeqLen = None,
    past: Past = None,
    source_len: SourceLen = None,
    mla: Mla = "auto",
    scan: Scan = "auto",
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
    tp: Tp = 1,
    dp: Dp = 1,
    layers: Layers = None,
    per_kind: PerKind = False,
    no_ceilings: NoCeilings = False,
    refresh: Refresh = False,
    against_prediction: AgainstPrediction = False,
    calibrate: Calibrate = None,
    plot: Plot = None,
    trace: Trace = None,
    depth: Depth = 0,
    top: Top = 15,
    overrides: Set = None,
    form: Form = None,
    as_json: Json = False,
    output: Output = None,
) -> None:
    """Measure where the time of a pass goes on this machine.

    Builds the model with random weights, runs the pass, times every operation, and sets time beside FLOPs and
    bytes. Training has no optimizer, and a loss only where the model states one. Needs torch.

    A model that does not fit into memory is measured by kinds of layer and extrapolated, as with --per-kind.
    The preset `ivanov` is the layer that Ivanov et al. 2021 measured, with their table.
    With --tp or --dp it runs on several devices, a process each, which a launcher starts:
    `torchrun --no-python --nproc-per-node 2 archcli profile MODEL --tp 2`.

    Ctrl-C shows what was measured so far. Exits with 1 where an operation ran that the model does not account
    for, or where the trace of a GPU lacks kernels.
    """
    launch = launch_of(context, tp, dp)
    check_files(context.params)
    check_against(context.params)
    if repeat_process is not None:
        raise typer.Exit(_exit_code(in_processes(context, repeat_process)))
    keep_large_blocks(allocator, device)
    with said_once(launch):
        usual, detail = workload_of(model, compiled=compiled), Detail(depth, top)
        how = (pairs, not no_ceilings, refresh, trace is not None, hide_launch, compiled, launch)
        settings = RunSettings(dtype, device, attention or usual.attention, threads, *how)
        request = usual.request(phase, batch_size, seq_len, past, source_len, {"mla": mla, "scan": scan})
        asked = None if vs else cut_to(subject(model, overrides), layers, per_kind=per_kind)
        prediction = PassPrediction.of(calibrate or (), device, dtype) if against_prediction else None
    if asked is None:
        variants = requested_variants(model, overrides, settings, vs or ())
        asked, report = variants[0].subject, compare(variants, request, detail)
    else:
        report, recording = profile_model(
            asked, request, settings, usual, detail, layers=layers, per_kind=per_kind
        )
        if prediction is not None:
            report = prediction.beside(report, asked.model, request, launch)
        write_files(report, recording, plot, trace)
    asked.show(report, form, output, as_json=as_json)
    raise typer.Exit(_exit_code(report))


def _exit_code(report: Report) -> int:
    """1 if any model's trace lacked kernels or had unexpected operations, else 0."""
    totals = report.totals
    if totals["partial"]:
        return INTERRUPTED
    models = totals.get("variants", [totals])
    return int(any(model["operations_differing"] or model["launches_lost"] for model in models))
