"""fit: `archcli fit` in Python."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

from archcli.api.asking.device import device_memory
from archcli.api.asking.options import BatchSize, Context, Device, Engine, KvDtype, Utilization, Where
from archcli.api.asking.question import Option, asks
from archcli.api.asking.subject import Subject, given
from archcli.api.memory import MemoryOptions
from archcli.api.predict import PredictOptions, predict_question
from archcli.errors import ArchError
from archcli.measure.fit.choice import FitAsked
from archcli.measure.fit.listing import Asked, Entry, FitOrder, Tick, fit_all
from archcli.measure.fit.verdict import fit_model
from archcli.measure.memory.answers.question import MemoryQuestion
from archcli.measure.predict.answers.question import PredictQuestion
from archcli.measure.report import Report
from archcli.modules.models.model import ModelLike
from archcli.modules.spec.arguments import DtypeName
from archcli.modules.spec.values import Interval

Format = Annotated[
    DtypeName | None,
    Option(
        "The format of the weights: bf16, q4_k_m, awq-int4. [default: the largest that fits]",
        metavar="TYPE",
        reads="text",
        completes="dtypes",
    ),
]
MinSpeed = Annotated[
    Annotated[float, Interval(gt=0)] | None,
    Option("Tokens a second that must be expected.", metavar="RATE"),
]
Order = Annotated[FitOrder, Option("Without a model: the largest or the fastest first.")]
Verbose = Annotated[bool, Option("Show every format of a model, or every model of a device.")]


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
    min_speed: MinSpeed = None
    where: Where = ()
    sort: Order = "size"
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
        return FitAsked(memory, predict, self.dtype, self.context, min_speed=self.min_speed, **known)


SHARED = ("device", "batch_size", "engine", "kv_dtype", "utilization")
"""Options that memory and predict have, too."""
OF_LISTS = ("where", "sort")
"""Options of a question without a model."""
DEFAULTS = FitOptions()


def fit_report(options: FitOptions, overrides: Sequence[str] = (), tick: Tick = lambda *_: None) -> Report:
    """The report on a model and a device, or on what fits a device; `tick` hears of each model of many."""
    if options.model is None:
        return _presets(options, tick)
    stated = [name for name in OF_LISTS if getattr(options, name) != getattr(DEFAULTS, name)]
    if stated:
        what = f"--{stated[0]} chooses among presets, and {options.model} is one model"
        raise ArchError(what, f"leave --{stated[0]} or the model out")
    if options.device is None:
        raise ArchError("fit needs a device to fit into", f"archcli fit {options.model} rtx-4090")
    subject = given(options.model, overrides)
    return subject.named(fit_model(options.asked(subject), verbose=options.verbose))


def _presets(options: FitOptions, tick: Tick) -> Report:
    """The report on the presets that fit a device."""
    device = device_memory(options.device, None)
    if device is None:
        raise ArchError("fit needs a device to fit into", "archcli fit --device rtx-4090")
    name = device.name if device.n_devices == 1 else f"{device.n_devices}x{device.name}"
    asked = Asked(name, device.memory_bytes * device.n_devices, options.sort, options.min_speed)
    inputs = {name: getattr(options, name) for name in ("device", "context", "dtype", "where", "min_speed")}
    return fit_all([*_entries(options)], asked, inputs, tick, verbose=options.verbose)


def _entries(options: FitOptions) -> Iterator[Entry]:
    """The presets that generate text and meet --where, by the index alone."""
    from archcli.load.presets import preset_records  # of presets alone
    from archcli.measure.survey.columns import COLUMNS, CONDITIONS
    from archcli.measure.survey.presets import select

    for record in select(preset_records(COLUMNS), CONDITIONS, options.where):
        if record["kind"] != "encoder":
            yield Entry(record["name"], record["params"], _asking(options, record), {})


def _asking(options: FitOptions, record: dict[str, Any]) -> Callable[[], FitAsked]:
    """Asks about a preset, which is loaded then."""
    return lambda: replace(options, model=record["name"]).asked(given(record["name"]))


@asks(FitOptions)
def fit(options: FitOptions) -> Report:
    """Whether a model fits a device, in which format, with how much context, and how fast it is.

    `totals` hold fits, format, engine, context (the most tokens that fit), tokens_per_s (floor, expected, low
    and high), peak_bytes, memory_bytes, the next `better` and `smaller` format, and the one `change` that
    would help most. With a device alone `rows` are the presets, and `totals` fitting, asked and device.

    Example: `fit("llama-3.1-8b", "rtx-4090").totals["format"]` is bf16.
    """
    return fit_report(options)
