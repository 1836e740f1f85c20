"""predict: `archcli predict` in Python, and the question of both from plain arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, ParamSpec

from archcli.commands._device import predicted_device
from archcli.commands._plan import degrees
from archcli.commands.base import given
from archcli.errors import ArchError
from archcli.graph.kept import Backend
from archcli.measure.memory.plan import Plan
from archcli.measure.memory.settings import AttentionForm, MemoryPhase, MemorySettings
from archcli.measure.predict.answers.default_plan import default_plan
from archcli.measure.predict.answers.question import (
    DEFAULT_NEW,
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
from archcli.modules.arguments import ModelLike, bound
from archcli.modules.request import ABOVE_0_OR_NONE
from archcli.modules.values import ValueType, refused, value_type

P = ParamSpec("P")
WHOLE = Plan()


@dataclass(frozen=True, slots=True)
class AskedTime:
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

    def settings(self) -> MemorySettings:
        """What memory is asked as well. Raises ArchError for `past` of another phase than decode."""
        if self.past is not None and self.phase != "decode":
            what = f"--past are tokens before a decoded one, and the phase is {self.phase}"
            raise ArchError(what, "state the tokens of a sequence: --seq-len")
        return MemorySettings(
            phase=self.phase,
            batch_size=self.batch_size,
            seq_len=self.seq_len if self.past is None else self.past,
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
        )


def asked_question(model: Model, asked: AskedTime, plan: Plan = WHOLE) -> PredictQuestion:
    """The question of these arguments; several devices without a plan share the model as is usual."""
    device = predicted_device(asked.device)
    question = PredictQuestion(model, asked.settings(), device, plan, asked.beyond())
    if plan == WHOLE and device.memory.n_devices > 1:
        return replace(question, plan=default_plan(question, device.memory.n_devices))
    return question


def _price(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        raise refused(value, "a price, 0 or above")
    return float(value)


OWN = {
    "phase": value_type(MemoryPhase),
    "attention": value_type(AttentionForm),
    "plan": ValueType("a mapping from names", degrees, {}),
    "device": value_type(str),
    "new": ABOVE_0_OR_NONE,
    "tokens": ABOVE_0_OR_NONE,
    "engine": value_type(EngineName),
    "kv_read": value_type(CacheReads),
    "price_per_hour": ValueType("a price", lambda value: None if value is None else _price(value), {}),
    "curve": value_type(Curve | None),
    "fit": value_type(FitTime | None),
    "dtype": value_type(str),
}
"""Values that names accept here beside those of all functions."""


def _checked(function: Callable[P, Report]) -> Callable[P, Report]:
    """Wrap a function so that its arguments are checked first; ArchError for a wrong name or value."""

    @wraps(function)
    def call(*args: P.args, **options: P.kwargs) -> Report:
        checked = bound(function, args, options, OWN)
        return function(*checked.args, **checked.kwargs)

    return call


@_checked
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
    recompute: str = "none",
    grad_accum: int = 1,
    plan: Mapping[str, Any] | None = None,
    engine: EngineName = "none",
    kv_read: CacheReads = "groups",
    price_per_hour: float | None = None,
    tokens: int | None = None,
    curve: Curve | None = None,
    fit: FitTime | None = None,
) -> Report:
    """How long a pass or a training step takes on a device: the report of `archcli predict`.

    Its options are those of the command; `device` is a name such as "8xh100-sxm", `plan` are degrees of
    parallelism by name: {"tp": 4}. `totals` hold time_s and tokens_per_s, each as floor, expected, low and
    high, bound_by, mfu, fits and what takes the time; without constants of the device there is a floor alone.

    Example: `predict("gpt2", "h100-sxm").totals["bound_by"]` is launch.
    """
    asked = AskedTime(
        device=device,
        phase=phase,
        batch_size=batch_size,
        seq_len=seq_len,
        past=past,
        new=new,
        source_len=source_len,
        dtype=dtype,
        attention=attention,
        backend=backend,
        recompute=recompute,
        grad_accum=grad_accum,
        engine=engine,
        kv_read=kv_read,
        price_per_hour=price_per_hour,
        tokens=tokens,
    )
    subject = given(model)
    question = asked_question(subject.model, asked, Plan(**(plan or {})))
    return subject.named(predict_times(question, curve=curve, what_fits=fit))
