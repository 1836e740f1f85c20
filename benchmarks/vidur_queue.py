"""vidur's schedulers over a trace of requests, with a linear time of a step: what queues are held against.

    python benchmarks/vidur_queue.py --vidur CHECKOUT --trace trace.csv --scheduler vllm --out out.csv
    python benchmarks/vidur_queue.py --vidur CHECKOUT --make tests/oracle/queues

vidur (microsoft/vidur, MIT) is run as it is: its schedulers, requests, batches and events, one replica of one
stage. Two things are ours: the seconds of a step, `a0 + a1 tokens + a2 context` of `--step`, where `tokens`
are all that the step computes and `context` is the sum, over its sequences, of the tokens that each has
behind it (the prompt's part so far, or prompt and generated tokens), and the one queue before the replica.

A trace has columns arrival (seconds), prompt, new. `--out` gets a row a request; beside it, in
`NAME.queue.csv`, how many requests wait and how many blocks are held, after every change.
"""

import argparse
import csv
import heapq
import sys
from dataclasses import dataclass, field
from itertools import accumulate, groupby, pairwise
from pathlib import Path
from types import SimpleNamespace

from numpy import mean, percentile
from numpy.random import default_rng

SCHEDULERS = ("vllm", "sarathi", "orca", "faster_transformer")


@dataclass
class Setting:
    """A replica: its scheduler, the limits of a step, the blocks of its cache, the seconds of a step."""

    scheduler: str = "vllm"
    chunk: int = 512
    batch_tokens: int = 4096
    sequences: int = 64
    blocks: int = 8192
    block: int = 16
    watermark: float = 0.01
    step: tuple = (8e-3, 2e-5, 4e-8)


@dataclass
class Run:
    """Requests after a run; (time, waiting, blocks held) after every event; steps; early restarts."""

    requests: list = field(default_factory=list)
    queue: list = field(default_factory=list)
    steps: int = 0
    early: int = 0


class Linear:
    """The time of a step in place of vidur's predictor."""

    def __init__(self, step, done):
        self.step, self.done = step, done

    def get_execution_time(self, batch, stage):
        """Seconds of a batch, in the two fields that vidur's stages read."""
        a0, a1, a2 = self.step
        context = sum(request.num_processed_tokens for request in batch.requests)
        seconds = a0 + a1 * batch.total_num_tokens + a2 * context
        self.done.steps += 1
        return SimpleNamespace(total_time=seconds, model_time=seconds)


class Replica:
    """The one replica that vidur's events speak to, in place of its global schedulers."""

    def __init__(self, scheduler):
        self.scheduler, self.waiting = scheduler, []
        self._replica_schedulers = {scheduler.replica_id: scheduler}
        self.add_request = self.waiting.append

    def schedule(self):
        """Whom the replica gets: all, in order of arrival."""
        pairs = [(self.scheduler.replica_id, request) for request in self.waiting]
        self.waiting.clear()
        return pairs

    def get_replica_scheduler(self, replica):
        """The scheduler of the replica."""
        return self.scheduler

    def get_replica_stage_scheduler(self, replica, stage):
        """The scheduler of a stage."""
        return self.scheduler.get_replica_stage_scheduler(stage)


class Silent:
    """vidur's record of figures, which is not asked for any."""

    def __getattr__(self, name):
        return nothing


def nothing(*values):
    """Takes what vidur would record."""


def scheduler_of(setting, longest, done):
    """vidur's scheduler of one replica; `longest` request in tokens."""
    from vidur import config
    from vidur.entities import Replica as Place
    from vidur.scheduler.replica_scheduler.replica_scheduler_registry import ReplicaSchedulerRegistry

    kind, more = {
        "vllm": (config.VllmSchedulerConfig, {"max_tokens_in_batch": setting.batch_tokens}),
        "sarathi": (config.SarathiSchedulerConfig, {"chunk_size": setting.chunk}),
        "orca": (config.OrcaSchedulerConfig, {}),
        "faster_transformer": (config.FasterTransformerSchedulerConfig, {}),
    }[setting.scheduler]
    limits = kind(
        batch_size_cap=setting.sequences,
        block_size=setting.block,
        num_blocks=setting.blocks,
        watermark_blocks_fraction=setting.watermark,
        **more,
    )
    place, arrivals = config.ReplicaConfig(), SimpleNamespace(max_tokens=longest)
    return ReplicaSchedulerRegistry.get(
        limits.get_type(),
        replica_config=place,
        replica_scheduler_config=limits,
        request_generator_config=arrivals,
        replica=Place(place, arrivals),
        num_stages=1,
        execution_time_predictor=Linear(setting.step, done),
    )


def simulate(trace, setting):
    """Runs a trace of (arrival, prompt, new) through vidur's events."""
    from vidur.entities import Request
    from vidur.events import RequestArrivalEvent

    class Counted(Request):
        def restart(self):
            done.early += not self.is_prefill_complete
            super().restart()

    done = Run()
    done.requests = [Counted(*request) for request in trace]
    scheduler = scheduler_of(setting, max(prompt + new for _, prompt, new in trace), done)
    replica, record = Replica(scheduler), Silent()
    arrivals = [RequestArrivalEvent(request.arrived_at, request) for request in done.requests]
    events = [(event.time, event.id, event) for event in arrivals]
    heapq.heapify(events)
    while events:
        event = heapq.heappop(events)[-1]
        for after in event.handle_event(replica, record):
            heapq.heappush(events, (after.time, after.id, after))
        done.queue.append((event.time, scheduler.num_pending_requests, scheduler.num_allocated_blocks))
    if unserved := sum(not request.completed for request in done.requests):
        raise SystemExit(f"{unserved} requests fit no step or no cache: raise --batch-tokens or --blocks")
    return done


def changes(queue):
    """The queue at every change: the last of what happened at one moment, where it differs."""
    moments = [list(group)[-1] for _, group in groupby(queue, key=lambda row: row[0])]
    return moments[:1] + [row for before, row in pairwise(moments) if row[1:] != before[1:]]


def over_time(queue, column):
    """Mean and most of a column of the queue, from the first arrival to the last end."""
    total = sum(before[column] * (row[0] - before[0]) for before, row in pairwise(queue))
    return total / (queue[-1][0] - queue[0][0]), max(row[column] for row in queue)


def summary(done, trace):
    """Figures of a run by name: percentiles in seconds, queues as means over time."""
    first = [request.prefill_completed_at - request.arrived_at for request in done.requests]
    end = [request.e2e_time for request in done.requests]
    each = zip(end, first, trace, strict=True)
    later = [(last - start) / (new - 1) for last, start, (_, _, new) in each if new > 1]
    rows = {}
    for name, values in (("ttft", first), ("tpot", later), ("e2e", end)):
        rows[f"{name}_mean"] = mean(values)
        rows |= {f"{name}_p{share}": percentile(values, share) for share in (50, 90, 99)}
    rows["waiting_mean"], rows["waiting_max"] = over_time(done.queue, 1)
    rows["blocks_mean"], rows["blocks_max"] = over_time(done.queue, 2)
    rows["seconds"] = done.queue[-1][0] - done.queue[0][0]
    rows["in_system_mean"] = sum(end) / rows["seconds"]
    restarts = sum(request.num_restarts for request in done.requests)
    return rows | {"steps": done.steps, "preemptions": restarts, "early_restarts": done.early}


def outcome(done):
    """(first token, end, preemptions) of each request, to a microsecond."""
    return [
        (f"{request.prefill_completed_at:.6f}", f"{request.completed_at:.6f}", request.num_restarts)
        for request in done.requests
    ]


def length(draw, middle, spread, most):
    """One length: lognormal about a median, between 2 and `most`; `spread` 0 is the median itself."""
    return max(2, min(most, round(middle * draw.lognormal(0, spread)))) if spread else middle


def arrivals_of(kind, draw, count, rate):
    """Arrival times of `count` requests: a Poisson process, even gaps, waves of 40, or all at once."""
    gaps = {
        "poisson": [draw.exponential(1 / rate) for _ in range(count)],
        "even": [1 / rate] * count,
        "waves": [40 / rate if index and index % 40 == 0 else 0.0 for index in range(count)],
        "once": [0.0] * count,
    }
    return [round(time, 6) for time in accumulate(gaps[kind])]


COUNT = 300
CHAT = (400, 0.8), (100, 0.7)
LONG = {"chunk": 1024, "batch_tokens": 8192, "blocks": 16384}
TRACES = {  # arrivals, load, prompt and new (median, spread), changes of the setting
    "poisson-10": ("poisson", 0.10, *CHAT, {}),
    "poisson-50": ("poisson", 0.50, *CHAT, {}),
    "poisson-80": ("poisson", 0.80, *CHAT, {}),
    "poisson-95": ("poisson", 0.95, *CHAT, {}),
    "poisson-110": ("poisson", 1.10, *CHAT, {}),
    "once": ("once", 1.0, *CHAT, {}),
    "waves-70": ("waves", 0.70, *CHAT, {}),
    "even-70": ("even", 0.70, (512, 0), (128, 0), {}),
    "tight-90": ("poisson", 0.90, (200, 0.6), (200, 0.6), {"blocks": 800}),
    "long-80": ("poisson", 0.80, (1500, 0.8), (60, 0.6), LONG),
}
"""Traces of the oracle. Load 1 is the rate at which sarathi starts the same requests, all there at once."""


def made(name, seed):
    """A trace and the setting that it is run with."""
    kind, load, prompt, new, sets = TRACES[name]
    draw, setting = default_rng(seed), Setting("sarathi", **sets)
    sizes = [(length(draw, *prompt, 4000), length(draw, *new, 1000)) for _ in range(COUNT)]
    at_once = simulate([(0.0, *size) for size in sizes], setting)
    rate = load * COUNT / max(request.prefill_completed_at for request in at_once.requests)
    times = arrivals_of(kind, draw, COUNT, rate)
    return [(time, *size) for time, size in zip(times, sizes, strict=True)], setting


def table(path, rows):
    """Writes rows of equal keys as CSV."""
    with path.open("w", newline="") as handle:
        writer = csv.DictWriter(handle, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def make(folder):
    """Writes the oracle: a file a trace, and the figures of all with the settings that they were run with."""
    figures = []
    for seed, name in enumerate(TRACES, 1):
        trace, setting = made(name, seed)
        rows = [dict(zip(("arrival", "prompt", "new"), request, strict=True)) for request in trace]
        for setting.scheduler in ("vllm", "sarathi"):
            done, kind = simulate(trace, setting), setting.scheduler
            for row, (first, end, restarts) in zip(rows, outcome(done), strict=True):
                row |= {f"{kind}_first": first, f"{kind}_end": end, f"{kind}_preemptions": restarts}
            values = {key: f"{value:.6g}" for key, value in summary(done, trace).items()}
            step = " ".join(map(str, setting.step))
            figures.append({"trace": name, **vars(setting), "step": step, **values})
        table(folder / f"{name}.csv", rows)
    table(folder / "figures.csv", figures)


def read(path):
    """A trace as (arrival, prompt, new), in order of arrival."""
    with path.open(newline="") as handle:
        rows = list(csv.DictReader(handle))
    trace = [(float(row["arrival"]), int(row["prompt"]), int(row["new"])) for row in rows]
    return sorted(trace, key=lambda request: request[0])


def write(path, trace, done):
    """A row a request, the queue beside it, and the figures on the screen."""
    keys = ("arrival", "prompt", "new", "first", "end", "preemptions")
    results = zip(trace, outcome(done), strict=True)
    table(path, [dict(zip(keys, (*request, *result), strict=True)) for request, result in results])
    queue = [dict(zip(("time", "waiting", "blocks"), row, strict=True)) for row in changes(done.queue)]
    table(path.with_suffix(".queue.csv"), queue)
    for name, value in summary(done, trace).items():
        print(f"{name:15} {value:.6g}")


def main():
    """Runs one trace, or makes the oracle anew."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--vidur", type=Path, help="a checkout of vidur, unless it is on PYTHONPATH")
    parser.add_argument("--make", type=Path, metavar="FOLDER", help="write the traces and their results")
    parser.add_argument("--trace", type=Path)
    parser.add_argument("--scheduler", choices=SCHEDULERS, default="vllm")
    parser.add_argument("--chunk", type=int, default=512, help="tokens of a step of sarathi")
    parser.add_argument("--batch-tokens", type=int, default=4096, help="vllm: prompts x the longest")
    parser.add_argument("--max-sequences", type=int, default=256, dest="sequences")
    parser.add_argument("--blocks", type=int, default=8192)
    parser.add_argument("--block", type=int, default=16)
    parser.add_argument("--watermark", type=float, default=0.01)
    parser.add_argument("--step", default="0.008,0.00002,0.00000004", help="a0,a1,a2 in seconds")
    parser.add_argument("--out", type=Path, default=Path("out.csv"))
    options = vars(parser.parse_args())
    vidur, folder, path, out = (options.pop(name) for name in ("vidur", "make", "trace", "out"))
    sys.path[:0] = [str(vidur)] if vidur else []
    if folder:
        return make(folder)
    options["step"] = tuple(map(float, options["step"].split(",")))
    trace = read(path)
    return write(out, trace, simulate(trace, Setting(**options)))


if __name__ == "__main__":
    main()
