"""The profile of one rank of a plan, and on the first rank the report of all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

from archcli.api.asking.subject import Subject
from archcli.errors import ArchError
from archcli.measure.notes import form_notes, source_notes
from archcli.measure.passes import Pass, checked_pass
from archcli.measure.report import Report
from archcli.modules import Model
from archcli.modules.models.stack import stacks
from archcli.modules.spec.request import Request
from archcli.modules.tensor_parallel.shard import shard
from archcli.render.data import document
from archcli.render.screen import Tick, progress
from archcli.wings.running.api.profiling.rank import RankLaunch, ending_together, holding_signals, said_once
from archcli.wings.running.api.profiling.settings import (
    Detail,
    RunSettings,
    check_positions,
    check_shares,
    machine_ceilings,
    needed_memory,
)
from archcli.wings.running.profile.reports.joined import RunOfRanks, of_ranks
from archcli.wings.running.profile.reports.one import profile_of
from archcli.wings.running.recording.recording import Recording
from archcli.wings.serving.memory.beyond.timed_run import require_memory
from archcli.wings.serving.memory.shares import sharded_memory
from archcli.wings.serving.recorded.machine import available_memory
from archcli.wings.serving.recorded.operations import CollectiveTime


class RankPass(NamedTuple):
    """The work of one rank: its share of the model, its replica's pass, the request of all replicas."""

    subject: Subject
    share: Model
    counted: Pass
    whole: Request
    memory: dict[str, int]


def profile_ranks(
    subject: Subject,
    request: Request,
    settings: RunSettings,
    detail: Detail,
    launch: RankLaunch,
    *,
    layers: int | None,
) -> tuple[Report, Recording]:
    """The report of all ranks and the first rank's recording; the other ranks end here.

    In training `request` has the batch of each replica, else the sequences of all of them.
    """
    with said_once(launch), holding_signals():
        ready = _checked(subject, request, settings, launch)
    inputs = {**ready.counted.inputs(), **settings.inputs(), "layers": layers}
    with ending_together(launch):
        measured = _measure(ready, settings, launch, inputs, detail)
    if not launch.is_first:
        raise SystemExit(0)
    inputs["batch_size"] = request.batch_size
    run = RunOfRanks(launch.tp, launch.dp, measured.backend)
    report = of_ranks(measured.documents, measured.collectives, run, inputs, detail.top)
    report = replace(
        report,
        model={"name": subject.name, "source": subject.source},
        totals={**report.totals, "memory": ready.memory},
        notes=(
            *source_notes(subject.model, request.source_len),
            *form_notes([subject.model], request.forms),
            *report.notes,
        ),
    )
    return report, measured.recording


class MeasuredByRanks(NamedTuple):
    """The measurements of all ranks on the first; the recording is this rank's."""

    documents: list[dict[str, Any]]
    collectives: list[tuple[CollectiveTime, ...]]
    recording: Recording
    backend: str


def _checked(subject: Subject, request: Request, settings: RunSettings, launch: RankLaunch) -> RankPass:
    """This rank's share and pass. Raises ArchError where it cannot run, on all ranks alike."""
    _check_model(subject.model, request, launch)
    check_shares(subject.model, request)
    request_of_replica, whole = batches(request, launch.dp)
    # ranks of one replica are neighbours: with tp=4, rank 5 holds share 1 of the second
    share = shard(subject.model, launch.tp, rank=launch.rank % launch.tp)
    counted = checked_pass(share, request_of_replica)
    check_positions(counted)
    memory = needed_memory(share, counted, settings)
    if counted.phase == "train" and launch.dp > 1:
        memory = sharded_memory(memory, share, counted, launch.dp, settings.dtype)
    if settings.device == "cpu":
        name = f"{launch.local_ranks} ranks of {subject.name}"
        # the ranks of a machine take their parts from one memory
        of_machine = {part: launch.local_ranks * size for part, size in memory.items()}
        require_memory(name, of_machine, available_memory(), settings.dtype)
    else:
        from archcli.wings.running.runtime.ranks.group import check_devices

        check_devices(launch.local_ranks)
    return RankPass(subject, share, counted, whole, memory)


def _check_model(model: Model, request: Request, launch: RankLaunch) -> None:
    """Raise ArchError for a model that ranks count but cannot run."""
    train = request.phase == "train"
    if launch.tp > 1 and train and model.trains_on_targets:
        raise ArchError(
            "a loss over words that ranks share is counted, not run",
            "--dp, or a phase without a loss, or a model that states none",
        )
    if launch.tp > 1 and len(tuple(stacks(model))) > 1:
        raise ArchError("an encoder-decoder whose ranks share words is counted, not run", "--dp runs it")
    if launch.dp > 1 and train and model.token_multiple > 1:
        raise ArchError(
            "replicas whose targets are shared out by clusters are not run", "a head without cluster_shares"
        )


def batches(request: Request, dp: int) -> tuple[Request, Request]:
    """The request of one replica, and that of all. Raises ArchError where they cannot share the batch."""
    batch = request.batch_size
    if request.phase == "train":
        return request, replace(request, batch_size=batch * dp)
    if batch % dp:
        raise ArchError(
            f"--dp {dp} does not divide --batch-size {batch}, the sequences of all replicas",
            # rounded up to the next batch that all replicas can share
            f"--batch-size {-(-batch // dp) * dp}",
        )
    return replace(request, batch_size=batch // dp), request


def _measure(
    ready: RankPass, settings: RunSettings, launch: RankLaunch, inputs: dict[str, Any], detail: Detail
) -> MeasuredByRanks:
    """Join the other ranks, time the pass with them, and gather their reports. Imports torch."""
    from archcli.wings.running.runtime.profile import machine, work
    from archcli.wings.running.runtime.ranks import group, record
    from archcli.wings.running.runtime.ranks.work import prepare_rank

    subject, device = ready.subject, settings.device
    if device != "cpu":
        device = f"cuda:{launch.local_rank}"
        require_memory(subject.name, ready.memory, work.free_memory(device), settings.dtype)
    with (
        _progress(subject.name, launch) as tick,
        machine.threads(settings.threads),
        group.joined(launch.tp, launch.dp, device) as ranks,
    ):
        tick("building", 0, 1)
        prepared = prepare_rank(subject.model, ready.whole, replace(settings.build(), device=device), ranks)
        name = subject.name if settings.trace and launch.is_first else ""
        recording = record.record_rank(prepared, ranks, settings.pairs, tick, trace=name)
        ceilings = machine_ceilings(recording, settings, tick) if launch.is_first else None
        report = profile_of(
            ready.share, ready.counted, recording, inputs, detail.depth, ceilings=ranks.shared(ceilings)
        )
        documents, collectives = ranks.gathered(document(report)), ranks.gathered(recording.collectives or ())
        return MeasuredByRanks(documents, collectives, recording, ranks.backend)


@contextmanager
def _progress(name: str, launch: RankLaunch) -> Iterator[Tick]:
    """A progress bar of the first rank."""
    if not launch.is_first:
        from archcli.wings.running.runtime.profile.record import no_progress

        yield no_progress
        return
    with progress(f"profiling {name} on {launch.tp * launch.dp} ranks") as tick:
        yield tick
