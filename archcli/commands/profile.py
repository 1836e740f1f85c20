"""`archcli profile`: measure on this machine where the time of one pass goes."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Annotated, Any, Literal

import typer

from archcli.commands.options import BatchSize, Depth, Form, Json, Model, Output, Past, SeqLen, Set
from archcli.errors import ArchError
from archcli.load.machine import available_memory
from archcli.load.source import load
from archcli.measure.flops import Question, run_pass, settled
from archcli.measure.memory import memory_of, require_memory
from archcli.measure.passes import Pass
from archcli.measure.profile import profile_of
from archcli.modules import Decoder
from archcli.ops import Embedding
from archcli.render import show
from archcli.render.progress import progress

INTERRUPTED = 130  # 128 + SIGINT, as a shell reports it

Phase = Annotated[
    Literal["forward", "train", "prefill", "decode"],
    typer.Option("--phase", help="forward, train (forward + backward), prefill, or decode: one token after --past, by default after -s."),
]
Dtype = Annotated[Literal["fp32", "bf16", "fp16"], typer.Option("--dtype", help="In which numbers to run. Their time shares differ.")]
Device = Annotated[str, typer.Option("--device", metavar="DEVICE", help="cpu, cuda or cuda:N.")]
Threads = Annotated[int | None, typer.Option("--threads", min=1, help="Threads within one operation; torch's choice unless given.")]
Attention = Annotated[
    Literal["sdpa", "eager"],
    typer.Option("--attention", help="sdpa: torch's fused kernel where it can; eager: products and softmax apart, so that each is timed."),
]
Pairs = Annotated[
    int | None,
    typer.Option("--pairs", min=1, help="How many plain and traced passes to time in turn: 10 unless given, fewer if they take over 8 s."),
]
Top = Annotated[int, typer.Option("--top", min=0, help="How many operators the table shows; 0 for all.")]


def run(
    model: Model,
    set_: Set = None,
    phase: Phase = "forward",
    batch_size: BatchSize = 1,
    seq_len: SeqLen = 128,
    past: Past = None,
    dtype: Dtype = "fp32",
    device: Device = "cpu",
    threads: Threads = None,
    attention: Attention = "sdpa",
    pairs: Pairs = None,
    depth: Depth = 0,
    top: Top = 15,
    form: Form = None,
    as_json: Json = False,
    output: Output = None,
) -> None:
    """Measure where the time of one pass goes: share of FLOPs, bytes and time by class of operation and by operator.

    Builds the model with random weights, runs it here and times every operation. Needs archcli[torch].
    """
    spec = load(model, set_).model
    question = settled(Question(phase=phase, batch_size=batch_size, seq_len=seq_len, past=past))
    counted = run_pass(spec, question)
    _refuse_beyond_positions(counted)
    memory = memory_of(counted, dtype, attention)
    require_memory(spec.name, memory, available_memory() if device == "cpu" else None, dtype)
    job = {
        "batch_size": counted.batch_size,
        "new": counted.new,
        "past": counted.past,
        "dtype": dtype,
        "device": device,
        "attention": attention,
    }
    cached = phase in {"prefill", "decode"} or counted.past > 0
    recording = _record(
        spec, job | {"cached": cached, "last_only": question.logits == "last", "train": phase == "train"}, memory, threads, pairs
    )
    inputs = asdict(question) | {"dtype": dtype, "device": device, "threads": threads, "attention": attention, "pairs": pairs}
    report = profile_of(spec, counted, recording, inputs, depth, top)
    show(replace(report, totals={**report.totals, "memory": memory}), form, output, as_json=as_json)
    if recording.partial:
        raise typer.Exit(INTERRUPTED)


def _record(spec: Decoder, options: dict[str, Any], memory: dict[str, int], threads: int | None, pairs: int | None) -> Any:
    """Build and measure. Imports torch, so that whatever can be refused without it has been."""
    from archcli.runtime import profile, profile_work

    job = profile_work.Job(**options)
    profile_work.check_device(job.device)
    if job.device != "cpu":
        require_memory(spec.name, memory, profile_work.free_memory(job.device), job.dtype)
    try:
        with progress(f"profiling {spec.name}") as tick, profile.threads(threads):
            tick("building", 0, 1)
            return profile.record(profile_work.prepare(spec, job), job.device, pairs, tick)
    except KeyboardInterrupt:
        typer.echo("interrupted before the first pair of passes was timed", err=True)
        raise typer.Exit(INTERRUPTED) from None


def _refuse_beyond_positions(counted: Pass) -> None:
    """A learned table of positions ends somewhere; running past its end is an error, not a slower run."""
    for row in counted.rows:
        of_positions = isinstance(row.op, Embedding) and len(row.inputs[0]) == 1
        if of_positions and row.op.entries < counted.new + counted.past:
            tokens = counted.new + counted.past
            raise ArchError(f"{row.path} has {row.op.entries} positions, and {tokens} tokens are asked for", "lower --seq-len or --past")
