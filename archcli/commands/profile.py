"""`archcli profile`: measure on this machine where the time of one pass goes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from archcli.commands.base import Subject, subject
from archcli.commands.options import BatchSize, Form, Json, Model, Output, Past, SeqLen, Set, SourceLen
from archcli.errors import ArchError
from archcli.load.machine import available_memory
from archcli.measure.flops import Question, run_pass, settled
from archcli.measure.memory import memory_of, require_memory
from archcli.measure.passes import Pass, Phase, whole_tokens, without_source
from archcli.measure.profile import profile_of
from archcli.ops import Embedding, Shift
from archcli.render.progress import progress

if TYPE_CHECKING:
    from archcli.runtime.profile import Recording

INTERRUPTED = 130  # 128 + SIGINT, as a shell reports it

PhaseOption = Annotated[
    Phase,
    typer.Option(help="One full pass; that and its backward; a pass that fills the cache; one token against a full cache."),
]
Dtype = Annotated[Literal["fp32", "bf16", "fp16"], typer.Option("--dtype", help="In which numbers to run; they differ in where time goes.")]
Device = Annotated[str, typer.Option("--device", metavar="DEVICE", help="cpu, cuda or cuda:N.")]
Threads = Annotated[int | None, typer.Option("--threads", metavar="N", min=1, help="Threads within an operation [default: torch's choice]")]
Attention = Annotated[
    Literal["sdpa", "eager"],
    typer.Option("--attention", help="torch's fused kernel where it can, or products and softmax apart, each timed."),
]
Pairs = Annotated[
    int | None,
    typer.Option("--pairs", metavar="N", min=1, help="Plain and traced passes to time in turn [default: 10, fewer if that takes over 8 s]"),
]
Depth = Annotated[int, typer.Option("--depth", metavar="N", min=0, help="How many steps of a path to show; 0 for all.")]
Top = Annotated[int, typer.Option("--top", metavar="N", min=0, help="How many operators the table shows, the slowest first; 0 for all.")]


def run(  # noqa: PLR0913, PLR0917 - one parameter per option
    model: Model,
    phase: PhaseOption = "forward",
    batch_size: BatchSize = 1,
    seq_len: SeqLen = 128,
    past: Past = None,
    source_len: SourceLen = None,
    dtype: Dtype = "fp32",
    device: Device = "cpu",
    threads: Threads = None,
    attention: Attention = "sdpa",
    pairs: Pairs = None,
    depth: Depth = 0,
    top: Top = 15,
    overrides: Set = None,
    form: Form = None,
    as_json: Json = False,
    output: Output = None,
) -> None:
    """Measure where time goes: share of FLOPs, bytes and time side by side, by class of operation and by operator.

    Builds the model here with random weights, runs the pass and times every operation of it. A decoding pass is one new
    token after --past cached ones, after --seq-len of them where --past is left out. Training is forward and backward
    without optimizer, and without a loss unless the model states one. What needs more memory than there is is refused
    before anything is built. Ctrl-C shows what was measured so far. Needs archcli[torch].
    """
    asked = subject(model, overrides)
    question = settled(Question(phase, batch_size, seq_len, past, source_len))
    _refuse_broken_shares(asked.model, question)
    counted = run_pass(asked.model, question)
    how = {"dtype": dtype, "device": device, "attention": attention}
    memory = _checked(asked.name, counted, **how)
    recording = _record(asked, _job(question, counted) | how, memory, threads, pairs)
    inputs = {"phase": phase, **_sizes(counted), **how, "threads": threads, "pairs": pairs}
    report = profile_of(asked.model, counted, recording, inputs, depth, top)
    notes = (*without_source(asked.model, source_len), *report.notes)
    asked.show(replace(report, totals={**report.totals, "memory": memory}, notes=notes), form, output, as_json=as_json)
    if recording.partial:
        raise typer.Exit(INTERRUPTED)


def _sizes(counted: Pass) -> dict[str, Any]:
    """How much goes through the model; `source_len` is None without an encoder that reads a source."""
    return {"batch_size": counted.batch_size, "seq_len": counted.new, "past": counted.past, "source_len": counted.source_len}


def _checked(name: str, counted: Pass, dtype: str, device: str, attention: str) -> dict[str, int]:
    """The memory the pass needs. Refuses what can be refused before torch is imported."""
    _refuse_beyond_positions(counted)
    memory = memory_of(counted, dtype, attention)
    if device == "cpu":
        require_memory(name, memory, available_memory(), dtype)
    return memory


def _job(question: Question, counted: Pass) -> dict[str, Any]:
    """What the runtime is to run: the pass that was counted."""
    return {
        "batch_size": counted.batch_size,
        "new": counted.new,
        "past": counted.past,
        "source_len": counted.source_len,
        "cached": question.phase in {"prefill", "decode"} or counted.past > 0,
        "last_only": question.logits == "last",
        "train": question.phase == "train",
    }


def _record(asked: Subject, options: dict[str, Any], memory: dict[str, int], threads: int | None, pairs: int | None) -> Recording:
    """Build and measure. Imports torch, so that whatever can be refused without it has been."""
    try:
        from archcli.runtime import profile, profile_work

        job = profile_work.Job(**options)
        profile_work.check_device(job.device)
        if job.device != "cpu":
            require_memory(asked.name, memory, profile_work.free_memory(job.device), job.dtype)
        with progress(f"profiling {asked.name}") as tick, profile.threads(threads):
            tick("building", 0, 1)
            return profile.record(profile_work.prepare(asked.model, job), job.device, pairs, tick)
    except KeyboardInterrupt:
        typer.echo("interrupted before the first pair of passes was timed", err=True)
        raise typer.Exit(INTERRUPTED) from None


def _refuse_broken_shares(model: Any, question: Question) -> None:
    """What a run trains on has whole tokens, where a count takes any share of them."""
    tokens, needed = question.batch_size * question.seq_len, whole_tokens(model)
    if question.phase == "train" and tokens % needed:
        raise ArchError(
            f"the cluster_shares of {tokens} tokens are no whole numbers", f"--batch-size times --seq-len a multiple of {needed}"
        )


def _refuse_beyond_positions(counted: Pass) -> None:
    """A learned table of positions ends somewhere; running past its end is an error, not a slower run."""
    shifts = {row.path: row.op.by for row in counted.rows if isinstance(row.op, Shift)}
    for row in counted.rows:
        if isinstance(row.op, Embedding) and len(row.inputs[0]) == 1:
            # an encoder runs only where nothing is cached, so that its first position is 0, too
            tokens, entries = row.inputs[0][0] + counted.past, row.op.entries - shifts.get(f"{row.path}_rows", 0)
            if entries < tokens:
                hint = "lower --seq-len, --past or --source-len"
                raise ArchError(f"{row.path} has {entries} positions, and {tokens} tokens are asked for", hint)
