"""`archcli profile`: measure on this machine where the time of one pass goes."""

from __future__ import annotations

from dataclasses import replace

import typer

from archcli.commands.base import subject
from archcli.commands.options import Form, Json, Model, Output, Past, Set, SourceLen
from archcli.commands.profile.allocator import keep_large_blocks
from archcli.commands.profile.files import check_files, write_files
from archcli.commands.profile.measuring import How, checked, measured
from archcli.commands.profile.options import (
    Allocator,
    Attention,
    BatchSize,
    Depth,
    Device,
    Dtype,
    NoCeilings,
    Pairs,
    PhaseOption,
    Plot,
    Refresh,
    SeqLen,
    Threads,
    Top,
    Trace,
)
from archcli.measure.flops import Question, run_pass, settled
from archcli.measure.passes import without_source
from archcli.measure.profile import profile_of
from archcli.measure.profile.workloads import workload_of

INTERRUPTED = 130  # 128 + SIGINT, as a shell reports it


def run(  # noqa: PLR0913, PLR0917 - one parameter per option
    model: Model,
    phase: PhaseOption = None,
    batch_size: BatchSize = None,
    seq_len: SeqLen = None,
    past: Past = None,
    source_len: SourceLen = None,
    dtype: Dtype = "fp32",
    device: Device = "cpu",
    threads: Threads = None,
    attention: Attention = None,
    pairs: Pairs = None,
    allocator: Allocator = "reuse",
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
    without optimizer. What needs more memory than there is is refused before anything is built. Ctrl-C shows what
    was measured so far. `ivanov` is the layer that Ivanov et al. 2021 measured, with their table. Exits with 1 where an
    operation ran that no row accounts for. Needs archcli[torch].
    """
    check_files(plot, trace)
    keep_large_blocks(allocator, device)
    asked = subject(model, overrides)
    usual = workload_of(model)
    phase = phase or usual.phase
    counted = run_pass(asked.model, settled(Question(phase, batch_size or usual.batch_size, seq_len or usual.seq_len, past, source_len)))
    how = How(
        dtype, device, attention or usual.attention, threads, pairs, ceilings=not no_ceilings, refresh=refresh, trace=trace is not None
    )
    memory = checked(asked.name, counted, how)
    recording, ceilings = measured(asked, counted, how, memory)
    inputs = {"phase": phase, **counted.sizes(), **how.inputs()}
    report = profile_of(asked.model, counted, recording, inputs, depth, top, ceilings)
    notes = (*without_source(asked.model, source_len), *report.notes)
    report = replace(report, model={"name": asked.name, "source": asked.source}, totals={**report.totals, "memory": memory}, notes=notes)
    report = usual.report(report, counted, recording)
    write_files(report, recording, plot, trace)
    asked.show(report, form, output, as_json=as_json)
    if recording.partial:
        raise typer.Exit(INTERRUPTED)
    if recording.differing:
        raise typer.Exit(1)
