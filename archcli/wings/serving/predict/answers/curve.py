"""A curve of `archcli predict`: the same question over batch sizes, contexts or numbers of devices."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from archcli.measure.report import Column, Table
from archcli.wings.serving.memory.answers.fit import usual_plan
from archcli.wings.serving.memory.answers.verdict import verdict_of
from archcli.wings.serving.memory.plan import Plan
from archcli.wings.serving.predict.answers.question import Curve, PredictQuestion
from archcli.wings.serving.predict.answers.tables import FIGURES, to_four

Record = dict[str, Any]
# batches of 1 to 4,096 sequences, of inference for each replica
DOUBLINGS = 13
SHORTEST, LONGEST = 1024, 131_072
"""Tokens of the first context, and of the last where the model states no max_seq_len."""


def curve_points(question: PredictQuestion, curve: Curve) -> list[Record]:
    """The points of a curve, each with twice the size of the one before, to the first that does not fit.

    Over devices: the usual plan of each number, from 1 to the number in the question.
    """
    points = []
    for size, changed in ASKED[curve](question):
        points.append(_point(curve, size, changed))
        # a batch or a context too large ends its curve, after two points at least; more devices may fit yet
        if curve != "devices" and not points[-1]["fits"] and len(points) > 1:
            break
    return points


def _batches(question: PredictQuestion) -> Iterator[tuple[int, PredictQuestion]]:
    for n in range(DOUBLINGS):
        # of inference the batch is that of all replicas, of training that of one
        at_once = question.plan.batches * question.plan.batches_at_once(question.settings)
        size = 2**n * at_once if question.phase != "train" else 2**n
        yield size, question.changed(batch_size=size)


def _contexts(question: PredictQuestion) -> Iterator[tuple[int, PredictQuestion]]:
    most = question.model.max_seq_len or LONGEST
    size = min(SHORTEST, int(most))
    while size <= most:
        yield size, question.changed(seq_len=size)
        size *= 2


def _devices(question: PredictQuestion) -> Iterator[tuple[int, PredictQuestion]]:
    most = max(question.device.memory.n_devices, question.plan.devices)
    n = 1
    while n <= most:
        plan = Plan() if n == 1 else usual_plan(question.memory(), n)
        # heads or batch may not divide, and the usual plan then uses fewer devices
        if plan.devices == n:
            yield n, replace(question, plan=plan)
        n *= 2


ASKED: Mapping[Curve, Callable[[PredictQuestion], Iterator[tuple[int, PredictQuestion]]]] = {
    "batch": _batches,
    "context": _contexts,
    "devices": _devices,
}
KEYS: Mapping[Curve, str] = {"batch": "batch_size", "context": "seq_len", "devices": "devices"}


def _point(curve: Curve, size: int, question: PredictQuestion) -> Record:
    answer = question.answer()
    prediction = answer.prediction
    latency = answer.served.per_token if answer.served else prediction.seconds
    memory = question.memory()
    return {
        KEYS[curve]: size,
        "time_s": prediction.seconds.record(),
        "latency_s": latency.record(),
        "tokens_per_s": prediction.tokens_per_s,
        "mfu": prediction.mfu,
        "bound_by": prediction.bound_by,
        "fits": memory.fits(),
        "verdict": verdict_of(memory, memory.answer()),
    }


def curve_table(curve: Curve, points: Sequence[Record], kind: str) -> Table:
    """A line for each point; of all figures the expected one, or the floor."""
    records = [
        {
            **point,
            "time": point["latency_s"][kind],
            "tokens": to_four(point["tokens_per_s"][kind]),
        }
        for point in points
    ]
    columns = (
        Column(KEYS[curve], TITLES[curve], "number"),
        Column("time", "time", "seconds"),
        Column("tokens", "tokens/s", "number"),
        Column("mfu", "MFU", "share"),
        Column("bound_by", "bound by"),
        Column("fits", "fits", "flag"),
    )
    return Table(f"by {TITLES[curve]} ({FIGURES[kind]})", columns, records)


TITLES: Mapping[Curve, str] = {
    "batch": "batch size",
    "context": "tokens of a sequence",
    "devices": "devices",
}
