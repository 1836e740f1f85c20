"""choose: `archcli choose` in Python."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from typing import Annotated, Any

from archcli.api.asking.options import SEQ_LEN, Engine, KvDtype
from archcli.api.asking.question import Option, asks, count_option, tokens_option
from archcli.api.asking.subject import Subject, given
from archcli.errors import ArchError, suggest
from archcli.measure.report import Report
from archcli.modules.models.model import ModelLike
from archcli.modules.spec.values import AboveZero, Interval
from archcli.wings.serving.api.choosing.cells import Cell, ChooseOrder, Conditions, Grid
from archcli.wings.serving.api.choosing.report import Asked, choose_cells
from archcli.wings.serving.api.choosing.shared import SharedQuestions
from archcli.wings.serving.api.fitting.forms import MIN_BITS
from archcli.wings.serving.api.fitting.question import FitOptions, Format, MinBits
from archcli.wings.serving.api.known_device.listed import ListedDevice, listed_devices
from archcli.wings.serving.api.pasted import pasted
from archcli.wings.serving.devices.prices import prices

Positive = Annotated[float, Interval(gt=0)]
Context = Annotated[
    AboveZero | None,
    tokens_option("Tokens of a sequence that must fit. [default: 8192, else fewer]", "-c", SEQ_LEN),
]
Speed = Annotated[
    Positive | None,
    Option("Tokens a second that each user gets at least.", metavar="RATE", reads="number", completes="speeds"),
]
Users = Annotated[AboveZero, count_option("Users at once, each with the context.")]
Budget = Annotated[
    Positive | None, Option("The most that all devices cost to buy.", metavar="PRICE", reads="number")
]
PerHour = Annotated[
    Positive | None, Option("The most that all devices cost for an hour.", metavar="PRICE", reads="number")
]
Devices = Annotated[
    str | None,
    Option(
        "Only devices of these names: rtx-*, h100*, or several with commas. "
        "[default: all that are sold alone, no processors]",
        metavar="PATTERN",
        completes="devices",
    ),
]
Order = Annotated[ChooseOrder, Option("The cheapest, the fastest or the most saving first.")]
Prices = Annotated[
    str | None,
    Option("A YAML of prices, or gpuhunt. [default: published prices]", metavar="FILE"),
]
All = Annotated[bool, Option("Show every format on all devices, whatever it costs.", name="all")]
Tick = Callable[[str, int, int], None]


@dataclass(frozen=True)
class ChooseOptions:
    """What `archcli choose` asks."""

    model: ModelLike
    speed: Speed = None
    context: Context = None
    users: Users = 1
    budget: Budget = None
    per_hour: PerHour = None
    devices: Devices = None
    dtype: Format = None
    engine: Engine = None
    kv_dtype: KvDtype = None
    min_bits: MinBits = MIN_BITS
    sort: Order = "price"
    prices: Prices = None
    every: All = False

    def __post_init__(self) -> None:
        """Raise ArchError for a price to buy and one for an hour at once."""
        if self.budget is not None and self.per_hour is not None:
            what = "--budget is to buy, --per-hour to hire"
            raise ArchError(what, "leave one of them out")

    @property
    def of_fit(self) -> FitOptions:
        """The question of `archcli fit` that each cell answers."""
        return FitOptions(
            self.model,
            context=self.context,
            dtype=self.dtype,
            batch_size=self.users,
            engine=self.engine,
            kv_dtype=self.kv_dtype,
            min_bits=self.min_bits,
        )

    def listed(self) -> list[ListedDevice]:
        """The devices of --devices, else all that are sold alone. Raises ArchError where no name matches."""
        known = listed_devices()
        if self.devices is None:
            return [device for device in known if device.kind != "cpu" and device.is_sold_alone]
        patterns = [pattern.strip().lower() for pattern in self.devices.split(",")]
        named = [device for device in known if any(fnmatch(device.name, pattern) for pattern in patterns)]
        if not named:
            hint = suggest(self.devices, [device.name for device in known]) or "archcli devices lists all"
            raise ArchError(f"--devices {self.devices} matches no device", hint)
        return named


def choose_report(options: ChooseOptions, subject: Subject, tick: Tick = lambda *_: None) -> Report:
    """The report on a loaded model; `tick` hears of each device."""
    conditions = Conditions(options.speed, options.users, options.budget, options.per_hour)
    of_fit, book = options.of_fit, prices(options.prices)
    grid = Grid(SharedQuestions(of_fit, subject), options.listed(), book, conditions)
    places = [*grid.places()]
    best, every = list[Cell](), list[Cell]()
    for i, (device, count) in enumerate(places):
        tick(device.name, i, len(places))
        best.append(grid.best(device, count))
        if options.every:
            every += grid.every(device, count)
    asked = Asked(conditions, options.sort, book, options.every)
    report = choose_cells(asked, best, every, _inputs(options))
    rows = [{**row, "command": _command(subject, of_fit, row)} for row in report.rows]
    return subject.named(replace(report, rows=rows), options)


def _inputs(options: ChooseOptions) -> dict[str, Any]:
    return {name: value for name, value in vars(options).items() if name != "model"}


def _command(subject: Subject, of_fit: FitOptions, row: dict[str, Any]) -> str:
    """The command that answers a row alone."""
    device = row["device"] if row["count"] == 1 else f"{row['count']}x{row['device']}"
    form = row["format"]
    named = {} if form is None or form.startswith("published") else {"dtype": form}
    return pasted("fit", subject, replace(of_fit, device=device, **named))


@asks(ChooseOptions)
def choose(options: ChooseOptions) -> Report:
    """Which devices to choose for a model: of all devices and counts, those that meet the conditions.

    `totals` hold device, count and format of the one that comes first, and how many were asked and meet all.
    `rows` are those that nothing beats in price, speed and watts, with `every` all: device, count, format,
    engine, context, tokens_per_s, peak_bytes, fits, price, watts and the command that answers it alone.

    Example: `choose("gpt2", devices="rtx-4090").totals["device"]` is rtx-4090.
    """
    subject = given(options.model)
    return subject.judged("choose", lambda: choose_report(options, subject))
