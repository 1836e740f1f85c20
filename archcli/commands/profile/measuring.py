"""From a counted pass to a recording: what can be refused is refused before torch is imported, and the rest is handed to the runtime."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import typer

from archcli.commands.base import Subject
from archcli.errors import ArchError
from archcli.load.ceilings import ceilings_file, kept_ceilings
from archcli.measure.memory.estimate import memory_of, require_memory
from archcli.measure.passes import Pass
from archcli.measure.profile.compiled_memory import compiled_memory
from archcli.modules import Model
from archcli.modules.request import Request
from archcli.ops import AddConstant, Lookup
from archcli.recording.machine import available_memory, processor
from archcli.render.progress import Tick, progress
from archcli.render.write import remember

if TYPE_CHECKING:
    from archcli.recording.ceilings import Ceilings
    from archcli.recording.recording import Recording
    from archcli.runtime.profile.work import Job

INTERRUPTED = 130  # 128 + SIGINT, as a shell reports it
BUSY = 0.5
"""Processes that wanted each processor when it began, beyond which what it could do is not kept: neighbours had a part of it."""
SAID = {"dtype", "device", "hide_launch", "attention", "compile", "threads", "pairs"}
"""What a report says of how it was measured."""


@dataclass(frozen=True, slots=True)
class How:
    """In what way to measure: the options by their names. Raises ArchError where launches are to be hidden and there are none."""

    dtype: str
    device: str
    attention: str
    threads: int | None
    pairs: int | None
    ceilings: bool
    refresh: bool
    trace: bool
    hide_launch: bool = False
    compile: bool = False

    def __post_init__(self) -> None:
        if self.hide_launch and self.device == "cpu":
            raise ArchError(
                "--hide-launch is for a GPU, to which kernels are launched; a CPU runs them itself",
                "--device cuda, or leave it out",
            )

    def inputs(self) -> dict[str, Any]:
        """What a report says of it."""
        return {key: value for key, value in asdict(self).items() if key in SAID}


def needed(counted: Pass, how: How) -> dict[str, int]:
    """The memory the pass needs, run in that way."""
    memory = memory_of(counted, how.dtype, how.attention)
    return compiled_memory(memory, counted, how.dtype) if how.compile else memory


def checked(name: str, counted: Pass, how: How) -> dict[str, int]:
    """The same. Raises ArchError for what cannot run."""
    checked_positions(counted)
    memory = needed(counted, how)
    if how.device == "cpu":
        require_memory(name, memory, available_memory(), how.dtype)
    return memory


def measured(
    asked: Subject, counted: Pass, how: How, memory: dict[str, int]
) -> tuple[Recording, Ceilings | None]:
    """Build, time, and ask the machine what it can do at best. Imports torch."""
    try:
        from archcli.runtime.profile import compiled as profile_compiled
        from archcli.runtime.profile import machine as profile_machine
        from archcli.runtime.profile import record as profile
        from archcli.runtime.profile import work as profile_work

        job = job_of(counted, how)
        profile_work.check_device(job.device)
        if how.compile:
            profile_compiled.check_compiler(job.device)
        if job.device != "cpu":
            require_memory(asked.name, memory, profile_work.free_memory(job.device), job.dtype)
        with progress(f"profiling {asked.name}") as tick, profile_machine.threads(how.threads):
            tick("building", 0, 1)
            name = asked.name if how.trace else ""
            work = profile_work.prepare(asked.model, job)
            if how.compile:
                recording = profile_compiled.record_compiled(work, job.device, how.pairs, tick, trace=name)
            else:
                recording = profile.record(
                    work, job.device, how.pairs, tick, trace=name, hide_launch=how.hide_launch
                )
            return recording, ceilings_of(recording, how, tick)
    except KeyboardInterrupt:
        typer.echo("interrupted before the first pair of passes was timed", err=True)
        raise typer.Exit(INTERRUPTED) from None


def available(how: How) -> int | None:
    """Bytes that the device has left; None where nobody knows. Imports torch for any but the CPU."""
    if how.device == "cpu":
        return available_memory()
    from archcli.runtime.profile import work as profile_work

    profile_work.check_device(how.device)
    return profile_work.free_memory(how.device)


def job_of(counted: Pass, how: How, distinct_experts: int | None = None) -> Job:
    """What the runtime is to run: the pass that was counted, in the way that was asked."""
    from archcli.runtime.profile.work import Job

    stepwise = counted.phase in {"prefill", "decode"}
    return Job(
        batch_size=counted.batch_size,
        new=counted.new,
        past=counted.past,
        source_len=counted.source_len,
        cached=stepwise or counted.past > 0,
        last_only=stepwise,
        train=counted.phase == "train",
        dtype=how.dtype,
        device=how.device,
        attention=how.attention,
        distinct_experts=distinct_experts,
    )


def ceilings_of(recording: Recording, how: How, tick: Tick) -> Ceilings | None:
    """What the machine can do, measured now or known from an earlier run of the same machine, dtype, threads and torch."""
    if not how.ceilings or recording.partial:
        return None
    from archcli.runtime.profile.work import DTYPES

    machine = recording.machine
    parts = [processor(), machine["processor"], machine["threads"], how.dtype, how.device, machine["torch"]]
    key = " | ".join(
        str(part)
        for part in [*parts, *(machine[name] for name in ("CUDA", "fp32 products") if name in machine)]
    )
    file = ceilings_file()
    kept = kept_ceilings(file)
    if key in kept and not how.refresh:
        return kept[key]
    from archcli.runtime.profile.ceilings import measure_ceilings

    tick("measuring what this machine can do", 0, 1)
    rates = measure_ceilings(how.dtype, DTYPES[how.dtype], how.device)
    if recording.load <= BUSY:
        remember(file, kept | {key: rates})
    return rates


def checked_positions(counted: Pass) -> None:
    """Raises ArchError beyond them: a learned table of positions ends somewhere; running past its end is an error, not a slower run."""
    shifts = {row.path: row.op.by for row in counted.rows if isinstance(row.op, AddConstant)}
    for row in counted.rows:
        if isinstance(row.op, Lookup) and len(row.inputs[0]) == 1:
            # an encoder runs only where nothing is cached, so that its first position is 0, too
            tokens, entries = (
                row.inputs[0][0] + counted.past,
                row.op.entries - shifts.get(f"{row.path}_rows", 0),
            )
            if entries < tokens:
                hint = "lower --seq-len, --past or --source-len"
                raise ArchError(
                    f"{row.path} has {entries} positions, and {tokens} tokens are asked for", hint
                )


def check_shares(model: Model, request: Request) -> None:
    """What a run trains on has whole tokens, where a count takes any share of them. Raises ArchError for others."""
    tokens, needed = request.batch_size * request.seq_len, model.token_multiple
    if request.phase == "train" and tokens % needed:
        raise ArchError(
            f"the cluster_shares of {tokens} tokens are no whole numbers",
            f"--batch-size times --seq-len a multiple of {needed}",
        )
