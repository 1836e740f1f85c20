"""predict: `archcli predict` in Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from archcli.commands._arguments import checked, degrees, record_of
from archcli.commands._asked_time import AskedTime, asked_question
from archcli.commands.base import given
from archcli.graph.kept import Backend
from archcli.measure.memory.plan import Plan
from archcli.measure.memory.settings import AttentionForm, MemoryPhase
from archcli.measure.predict.answers.question import FIELDS, Curve, FitTime
from archcli.measure.predict.answers.report import predict as predict_times
from archcli.measure.predict.rank.kernels import CacheReads
from archcli.measure.predict.serving.engines import EngineName
from archcli.measure.report import Report
from archcli.modules.spec.arguments import ModelLike
from archcli.modules.spec.request import ABOVE_0_OR_NONE
from archcli.modules.spec.values import ValueType, refused, value_type


def _files(value: Any) -> tuple[Path, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(file, str | PathLike) for file in value):
        raise refused(value, "a list of files")
    return tuple(map(Path, value))


OWN = {
    **FIELDS,
    "phase": value_type(MemoryPhase),
    "attention": value_type(AttentionForm),
    "plan": ValueType("a mapping from names", degrees, {}),
    "device": value_type(str),
    "new": ABOVE_0_OR_NONE,
    "curve": value_type(Curve | None),
    "fit": value_type(FitTime | None),
    "calibrate": ValueType("a list of files", _files, {}),
}
"""Values that names accept here beside those of all functions."""


@checked(OWN)
def predict(  # noqa: PLR0913
    model: ModelLike,
    device: str,
    phase: MemoryPhase = "decode",
    batch_size: int = 1,
    seq_len: int | None = None,
    *,
    past: int | None = None,
    new: int | None = None,
    source_len: int | None = None,
    dtype: str = "bf16",
    attention: AttentionForm = "flash",
    backend: Backend = "cuda",
    compiled: bool = False,
    recompute: str = "none",
    grad_accum: int = 1,
    plan: Mapping[str, Any] | None = None,
    engine: EngineName = "none",
    kv_read: CacheReads = "groups",
    price_per_hour: float | None = None,
    tokens: int | None = None,
    curve: Curve | None = None,
    fit: FitTime | None = None,
    calibrate: Sequence[str | PathLike[str]] = (),
) -> Report:
    """How long a pass or a training step takes on a device: the report of `archcli predict`.

    Its options are those of the command; `device` is a name such as "8xh100-sxm", `plan` are degrees of
    parallelism by name: {"tp": 4}. `totals` hold time_s and tokens_per_s, each as floor (the
    limit of the device's peaks), expected, low and high, bound_by, mfu, fits and what takes the time; without
    constants of the device there is a floor alone.
    `calibrate` are files of `archcli profile --json` on this machine, to which the constants of the device
    "local" are fitted.

    Example: `predict("gpt2", "h100-sxm").totals["bound_by"]` is launch.
    """
    asked = record_of(AskedTime, locals())
    subject = given(model)
    question = asked_question(subject.model, asked, Plan(**(plan or {})))
    return subject.named(predict_times(question, curve=curve, what_fits=fit))
