"""predict: `archcli predict` in Python, and its question from plain arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from archcli.api.arguments import checked, degrees, record_of
from archcli.api.device import predicted_device
from archcli.api.subject import given
from archcli.errors import ArchError
from archcli.graph.kept import Backend
from archcli.measure.memory.plan import Plan
from archcli.measure.memory.settings import AttentionForm, MemoryPhase, MemorySettings
from archcli.measure.predict.answers.question import (
    DEFAULT_NEW,
    FIELDS,
    FP8,
    Curve,
    FitTime,
    PredictQuestion,
    PredictSettings,
)
from archcli.measure.predict.answers.report import predict as predict_times
from archcli.measure.predict.rank.kernels import CacheReads
from archcli.measure.predict.serving.engines import EngineName
from archcli.measure.report import Report
from archcli.modules import Model
from archcli.modules.spec.arguments import ModelLike
from archcli.modules.spec.request import ABOVE_0_OR_NONE
from archcli.modules.spec.values import ValueType, refused, value_type

WHOLE = Plan()
CHOSEN = ("dp", "zero", "tp", "sp", "pp", "micro_batches", "ep")
"""Degrees that --fit time chooses."""


class AskedTime(NamedTuple):
    """The arguments of a prediction, as a user gives them; None where nothing is said."""

    device: str
    phase: MemoryPhase = "decode"
    batch_size: int = 1
    seq_len: int | None = None
    past: int | None = None
    new: int | None = None
    source_len: int | None = None
    dtype: str = "bf16"
    attention: AttentionForm = "flash"
    backend: Backend = "cuda"
    recompute: str = "none"
    grad_accum: int = 1
    engine: EngineName = "none"
    kv_read: CacheReads = "groups"
    price_per_hour: float | None = None
    tokens: int | None = None
    calibrate: Sequence[Path] | None = None
    compiled: bool = False
    fit: FitTime | None = None

    def settings(self) -> MemorySettings:
        """What memory is asked as well. Raises ArchError for `past` that the phase has not."""
        decodes = self.phase == "decode"
        if self.past is not None and self.phase not in {"decode", "prefill"}:
            what = f"--past applies to decode and prefill only, and the phase is {self.phase}"
            raise ArchError(what, "state the tokens of a sequence: --seq-len")
        return MemorySettings(
            phase=self.phase,
            batch_size=self.batch_size,
            seq_len=self.past if decodes and self.past is not None else self.seq_len,
            past=0 if decodes else self.past or 0,
            source_len=self.source_len,
            dtype="bf16" if self.dtype == FP8 else self.dtype,
            attention=self.attention,
            backend=self.backend,
            recompute=self.recompute,
            grad_accum=self.grad_accum,
        )

    def beyond(self) -> PredictSettings:
        """What a prediction is asked beside that."""
        return PredictSettings(
            self.new or DEFAULT_NEW,
            self.engine,
            self.kv_read,
            self.dtype,
            self.tokens,
            self.price_per_hour,
            self.compiled,
        )


def asked_question(model: Model, asked: AskedTime, plan: Plan = WHOLE) -> PredictQuestion:
    """The question of these arguments; several devices without a plan share the model as is usual."""
    device = predicted_device(asked.device, asked.calibrate or ())
    settings = asked.settings()
    if device.backend is not None:
        settings = replace(settings, backend=device.backend)
    question = PredictQuestion(model, settings, device, plan, asked.beyond())
    if asked.fit is not None:
        _check_chosen(plan)
        return question
    if plan == WHOLE and device.memory.n_devices > 1:
        from archcli.measure.predict.answers.best import default_plan  # of several devices alone

        return replace(question, plan=default_plan(question, device.memory.n_devices))
    return question


def _check_chosen(plan: Plan) -> None:
    """Raise ArchError where a degree is stated that the search chooses."""
    stated = [name for name in CHOSEN if getattr(plan, name) != getattr(WHOLE, name)]
    if stated:
        options = " and ".join(f"--{name.replace('_', '-')}" for name in stated)
        what = f"--fit time chooses the plan, and {options} state{'s' * (len(stated) == 1)} it"
        hint = f"leave {options} out, or leave --fit out; the device 8xNAME says how many there are"
        raise ArchError(what, hint)


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
