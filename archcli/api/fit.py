"""fit: `archcli fit` in Python."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from archcli.api.asking.options import BatchSize, Context, Device, Engine, KvDtype, Utilization
from archcli.api.asking.question import Option, asks
from archcli.api.asking.subject import Subject, given
from archcli.api.memory import MemoryOptions
from archcli.api.predict import PredictOptions, predict_question
from archcli.errors import ArchError
from archcli.measure.fit.choice import FitAsked
from archcli.measure.fit.verdict import fit_model
from archcli.measure.memory.answers.question import MemoryQuestion
from archcli.measure.predict.answers.question import PredictQuestion
from archcli.measure.report import Report
from archcli.modules.models.model import ModelLike
from archcli.modules.spec.arguments import DtypeName

Format = Annotated[
    DtypeName | None,
    Option(
        "The format of the weights: bf16, q4_k_m, awq-int4. [default: the largest that fits]",
        metavar="TYPE",
        reads="text",
        completes="dtypes",
    ),
]
Verbose = Annotated[bool, Option("Add a table of every format that fits.")]


@dataclass(frozen=True)
class FitOptions:
    """What `archcli fit` asks."""

    model: ModelLike | None = None
    device: Device = None
    context: Context = None
    dtype: Format = None
    batch_size: BatchSize = 1
    engine: Engine = None
    kv_dtype: KvDtype = None
    utilization: Utilization = None
    verbose: Verbose = False

    def asked(self, subject: Subject) -> FitAsked:
        """What is asked about a loaded model."""
        longest = subject.model.max_seq_len
        if self.context is not None and longest is not None and self.context > longest:
            what = f"--context {self.context:,} is beyond the {longest:,} tokens of {subject.name}"
            raise ArchError(what, f"--context {longest} at most, or --set max_seq_len={self.context}")
        shared = {name: getattr(self, name) for name in SHARED}

        def memory(**others: Any) -> MemoryQuestion:
            options = {**shared, "phase": "serve", **others}
            return MemoryOptions(subject.model, **options).question(subject.model)

        def predict(**others: Any) -> PredictQuestion:
            options = {**shared, "phase": "decode", **others}
            return predict_question(subject.model, PredictOptions(subject.model, **options))

        known = {} if longest is None else {"longest": longest}
        return FitAsked(memory, predict, self.dtype, self.context, **known)


SHARED = ("device", "batch_size", "engine", "kv_dtype", "utilization")
"""Options that memory and predict have, too."""


def fit_report(options: FitOptions, overrides: Sequence[str] = ()) -> Report:
    """The report on a model and a device, or on what fits a device."""
    subject = given(options.model, overrides)
    return subject.named(fit_model(options.asked(subject), verbose=options.verbose))


@asks(FitOptions)
def fit(options: FitOptions) -> Report:
    """Whether a model fits a device, in which format, with how much context, and how fast it is.

    Example: `fit("llama-3.1-8b", "rtx-4090").totals["fits"]` is True.
    """
    return fit_report(options)
