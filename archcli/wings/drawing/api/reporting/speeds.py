"""Whether a model fits each device of a report, and how fast it is, by `archcli fit`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from archcli.api.asking.subject import Subject
from archcli.errors import ArchError
from archcli.modules.spec.arguments import EngineName
from archcli.wings.serving.api.fit import fit_report
from archcli.wings.serving.api.fitting.question import FitOptions

SINGLE = ("rtx-4090", "h100-sxm", "b200-sxm")
SERVERS = ("8xh100-sxm", "8xb200-sxm")
"""Default devices; the servers are added if no single device holds the model."""


def speeds(subject: Subject, devices: Sequence[str], engine: EngineName | None) -> list[dict[str, Any]]:
    """A record for each device: fits (None if unknown, with the reason), format, context, rates."""
    records = [_speed(subject, device, engine) for device in devices or SINGLE]
    if not devices and not any(record["fits"] for record in records):
        records += [_speed(subject, device, engine) for device in SERVERS]
    return records


def _speed(subject: Subject, device: str, engine: EngineName | None) -> dict[str, Any]:
    empty = {"device": device, "fits": None, "verdict": "unknown", "words": "", "format": "", "context": 0}
    empty |= {"memory": None, "rate": None}
    try:
        options = FitOptions(subject.model, device, engine=engine)
        totals = fit_report(options, read=lambda *_: subject).totals
    except ArchError as error:
        if len(error.problems) == 1 and error.problems[0].path is not None:
            # a device that does not exist
            raise
        return {**empty, "words": error.problems[0].what}
    if totals["fits"] is None:
        return {**empty, "words": f"bytes of {totals['form']} are not known"}
    fitted = {key: totals[key] for key in ("fits", "verdict", "format", "context")}
    memory = totals["memory_bytes"] * totals["devices"]
    if not totals["fits"]:
        return {**empty, "fits": False, "verdict": "no", "memory": memory, "words": "does not fit"}
    return {**empty, **fitted, "memory": memory, "rate": totals["tokens_per_s"]}
