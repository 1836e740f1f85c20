"""choose: `archcli choose` in Python."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from itertools import chain
from typing import Annotated, Any, Literal

from archcli.api.asking.options import SEQ_LEN, KvDtype, NamedEngines, Size
from archcli.api.asking.question import Option, asks, count_option, tokens_option
from archcli.api.asking.spread import ClusterOptions
from archcli.api.asking.subject import Subject, given
from archcli.errors import ArchError
from archcli.measure.report import Report
from archcli.modules.models.model import ModelLike
from archcli.modules.spec.arguments import EngineName
from archcli.modules.spec.values import AboveZero, Interval
from archcli.wings.serving.api.choosing.cells import (
    ChooseOrder,
    Conditions,
    HardwareCell,
    HardwareGrid,
    Place,
)
from archcli.wings.serving.api.choosing.report import ChooseView, choose_cells
from archcli.wings.serving.api.choosing.shared import NAMES, SharedQuestions
from archcli.wings.serving.api.choosing.training import TrainingOptions, TrainingQuestions
from archcli.wings.serving.api.fitting.choice import Choice
from archcli.wings.serving.api.fitting.forms import LEAST, MIN_BITS, is_published
from archcli.wings.serving.api.fitting.question import FitOptions, Format
from archcli.wings.serving.api.known_device.listed import ListedDevice, listed_devices
from archcli.wings.serving.api.predict import PredictOptions
from archcli.wings.serving.api.programs.command_lines import with_command
from archcli.wings.serving.api.programs.pasted import pasted
from archcli.wings.serving.api.programs.trainer import Command, Method, TrainerOption
from archcli.wings.serving.devices.datasheet import device_named, load_datasheet
from archcli.wings.serving.devices.prices import PriceBook, prices
from archcli.wings.serving.memory.answers.question import MemoryQuestion, check_question
from archcli.wings.serving.memory.settings import MemorySettings

Positive = Annotated[float, Interval(gt=0)]
Context = Annotated[
    AboveZero | None,
    tokens_option("Tokens of a sequence that must fit. [default: 8192, or max_seq_len]", "-c", SEQ_LEN),
]
Speed = Annotated[
    Positive | None,
    Option(
        "Tokens a second that each user gets at least.", metavar="RATE", reads="number", completes="speeds"
    ),
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
FewestBits = Annotated[
    Positive, Option("Bits of a weight at least.", metavar="BITS", reads="number", completes="bits")
]
Engines = Annotated[
    NamedEngines | None,
    Option(
        "What runs inference; several with commas: vllm,llamacpp. [default: the usual one of a format]",
        metavar="ENGINES",
        reads="text",
        completes="engines",
    ),
]
Offload = Annotated[
    str | None,
    Option(
        "Where no format fits, leave in RAM, with llama.cpp: auto, layers:N or experts.",
        metavar="WHAT",
        completes="offloads",
        rare=True,
    ),
]
Ram = Annotated[
    Size, Option("With --offload: its RAM. [default: 64GiB]", metavar="SIZE", reads="text", rare=True)
]
Order = Annotated[ChooseOrder, Option("The cheapest, the fastest or the most saving first.")]
Prices = Annotated[
    str | None,
    Option("A YAML of prices, or gpuhunt. [default: published prices]", metavar="FILE"),
]
All = Annotated[bool, Option("Show every format on all devices, whatever it costs.", name="all")]
Phase = Annotated[Literal["serve", "train"], Option("What the devices do.")]
Trained = Annotated[AboveZero | None, count_option("With --phase train: tokens of the whole training, 1e9.")]
Within = Annotated[
    str | None,
    Option("The most time that these tokens take: 3days, 36h.", metavar="TIME", reads="text"),
]
OF_SERVING = ("speed", "engine", "kv_dtype", "command", "offload", "ram")
OF_TRAINING = ("method", "trainer", "tokens", "within")
TIME = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?(d|days?|h|hours?)", re.IGNORECASE)
SECONDS = {"d": 86_400.0, "h": 3_600.0}
NO_INPUTS = ("model", *vars(ClusterOptions()))
"""Options that say nothing of the answer."""
TOGETHER = 32
"""Places of a part: neighbours often run alike, and share what is traced."""
Tick = Callable[[str, int, int], None]


def seconds_of(text: str) -> float:
    """The seconds of 3days or 36h. Raises ArchError for any other text."""
    match = TIME.fullmatch(text.strip())
    seconds = float(match[1]) * SECONDS[match[2][0].lower()] if match else 0.0
    if not seconds:
        raise ArchError(f"--within {text} is no time", "such as 3days or 36h")
    return seconds


@dataclass(frozen=True)
class ChooseOptions(ClusterOptions):
    """What `archcli choose` asks."""

    model: ModelLike
    speed: Speed = None
    context: Context = None
    users: Users = 1
    budget: Budget = None
    per_hour: PerHour = None
    devices: Devices = None
    dtype: Format = None
    engine: Engines = None
    kv_dtype: KvDtype = None
    min_bits: FewestBits = MIN_BITS
    sort: Order = "price"
    prices: Prices = None
    every: All = False
    command: Command = False
    phase: Phase = "serve"
    method: Method = None
    trainer: TrainerOption = None
    tokens: Trained = None
    within: Within = None
    offload: Offload = None
    ram: Ram = None

    def __post_init__(self) -> None:
        """Raise ArchError for options that contradict each other."""
        if self.budget is not None and self.per_hour is not None:
            raise ArchError("--budget is to buy, --per-hour to hire", "leave one of them out")
        if (self.tokens is None) != (self.within is None):
            what = "--tokens within which time" if self.within is None else "--within of how many tokens"
            raise ArchError(f"{what} is not said", "--tokens 1e9 --within 3days")
        trains = self.phase == "train"
        refused = OF_SERVING if trains else OF_TRAINING
        named = [name for name in refused if getattr(self, name) not in {None, getattr(ChooseOptions, name)}]
        if named:
            phase = "serve" if trains else "train"
            raise ArchError(f"--{named[0].replace('_', '-')} is of --phase {phase}", "leave it out")

    @property
    def rate(self) -> float | None:
        """Tokens a second of all users together, or of a training within a time; None for any."""
        if self.tokens is not None and self.within is not None:
            return self.tokens / seconds_of(self.within)
        return None if self.speed is None else self.speed * self.users

    def questions(self, subject: Subject) -> dict[EngineName | None, SharedQuestions | TrainingQuestions]:
        """The questions about a loaded model on any device, by engine."""
        if self.phase == "serve":
            if self.engine is None:
                return {None: self._serving(subject, None)}
            named = self.engine.split(",")
            return {engine: self._serving(subject, engine) for engine in NAMES if engine in named}
        options = TrainingOptions(self.users, self.context, self.dtype, self.method, self.trainer)
        return {None: TrainingQuestions(options, subject)}

    def _serving(self, subject: Subject, engine: EngineName | None) -> SharedQuestions:
        options = self.of_fit(subject, engine)
        offloads = self.offload is not None and engine in {None, "llamacpp"}
        beyond = replace(options, engine="llamacpp", **self._in_ram) if offloads else None
        return SharedQuestions(options, subject, beyond)

    @property
    def _in_ram(self) -> dict[str, Any]:
        return {"offload": self.offload, "ram": self.ram}

    def check_offload(self, subject: Subject) -> None:
        """Raise ArchError for an offload that no engine in question or the model has."""
        if self.offload is None and self.ram is not None:
            raise ArchError("--ram is of --offload, which is left out", "--offload auto")
        if self.offload is not None and "llamacpp" not in (self.engine or "llamacpp").split(","):
            what = f"--offload is of llama.cpp, and the engine is {self.engine}"
            raise ArchError(what, "--engine llamacpp, or leave --offload out")
        options = replace(self.of_fit(subject, None), **self._in_ram)
        options.check_offload(None, subject.model)
        options.host()

    def grid(self, subject: Subject, book: PriceBook, devices: Sequence[ListedDevice] = ()) -> HardwareGrid:
        """The devices and counts, and their cells."""
        conditions = Conditions(self.rate, self.users, self.budget, self.per_hour)
        return HardwareGrid(self.questions(subject), devices, book, conditions)

    def alone(self, subject: Subject, cell: HardwareCell) -> str:
        """The command that answers a cell alone."""
        device, form = cell.name, None if cell.choice is None else cell.choice.format
        if self.phase == "train":
            changes: dict[str, Any] = {"dtype": self.dtype, "method": self.method, "trainer": self.trainer}
            options = PredictOptions(
                self.model, device, phase="train", batch_size=self.users, seq_len=self.context, **changes
            )
            return pasted("predict", subject, options)
        named: dict[str, Any] = {} if form is None or is_published(form) else {"dtype": form}
        if cell.choice is not None and cell.choice.offload is not None:
            named |= self._in_ram
        return pasted("fit", subject, replace(self.of_fit(subject, cell.of_engine), device=device, **named))

    def of_fit(self, subject: Subject, engine: EngineName | None) -> FitOptions:
        """The question of `archcli fit` that each cell answers."""
        usual = min(LEAST[0], subject.model.max_seq_len or LEAST[0])
        return FitOptions(
            self.model,
            context=self.context or usual,
            dtype=self.dtype,
            batch_size=self.users,
            engine=engine,
            kv_dtype=self.kv_dtype,
            min_bits=self.min_bits,
        )

    def listed(self) -> list[ListedDevice]:
        """The devices of --devices, else all that are sold alone, each with every size of memory.

        Raises ArchError where no name matches.
        """
        known = listed_devices()
        if self.devices is None:
            alone = [device for device in known if device.kind != "cpu" and device.is_sold_alone]
            return [size for device in alone for size in _sizes(device)]
        matching = (it for text in self.devices.split(",") for it in _matching(text.strip(), known))
        return [*{device.name: device for device in matching}.values()]


def _matching(text: str, known: Sequence[ListedDevice]) -> Iterator[ListedDevice]:
    """The devices of a pattern, or of a name as people write it: rtx-4090 of 4090, m3-max:64gb."""
    if {*text} & {*"*?["}:
        devices = [device for device in known if fnmatch(device.name, text.lower())]
        if not devices:
            raise ArchError(f"--devices {text} matches no device", "`archcli devices` lists all")
        yield from (size for device in devices for size in _sizes(device))
        return
    name, memory_gb, _ = device_named(text)
    device = next(device for device in known if device.name == name)
    yield from _sizes(device) if memory_gb is None else [_of_size(device, memory_gb)]


def _sizes(device: ListedDevice) -> Iterator[ListedDevice]:
    """The device, and as it is sold with less memory."""
    sheet = load_datasheet(device.name)
    label = sheet.figures.get("memory_gb")
    yield device
    for memory_gb in sheet.memory_sizes:
        if label is None or memory_gb != label.value:
            yield _of_size(device, memory_gb)


def _of_size(device: ListedDevice, memory_gb: int) -> ListedDevice:
    load_datasheet(device.name).of_size(memory_gb)
    return device._replace(name=f"{device.name}:{memory_gb}gb")


def choose_report(options: ChooseOptions, subject: Subject, tick: Tick = lambda *_: None) -> Report:
    """The report on a loaded model; `tick` hears of each device."""
    if options.phase == "serve":
        check_question(MemoryQuestion(subject.model, MemorySettings("serve")))
        options.check_offload(subject)
    book = prices(options.prices)
    grid = options.grid(subject, book, options.listed())
    places = [*grid.places()]
    parts = [places[start : start + TOGETHER] for start in range(0, len(places), TOGETHER)]
    best, every = list[HardwareCell](), list[HardwareCell]()
    try:
        for answered in options.answers(_asking, (options, subject, book), parts):
            best += [first for first, *_ in answered]
            every += chain.from_iterable(answered)
            tick(best[-1].device.name, len(best), len(places))
    except KeyboardInterrupt:
        if not best:
            raise
    refused = [cell.refusal for cell in best if cell.refusal is not None]
    if len(refused) == len(places):
        raise refused[0]  # the question's own fault: an unknown trainer, a format that the engine lacks
    view = ChooseView(grid.conditions, options.sort, book, options.every, len(places))
    inputs = {name: value for name, value in vars(options).items() if name not in NO_INPUTS}
    if options.phase == "serve":
        inputs["context"] = options.of_fit(subject, None).context
    report = choose_cells(view, best, every, inputs, lambda cell: options.alone(subject, cell))
    if options.command:
        report = with_command(report, _first(grid, view.meeting(best)), subject, options)
    return subject.named(report, options)


def _asking(
    options: ChooseOptions, subject: Subject, book: PriceBook
) -> Callable[[Sequence[Place]], list[list[HardwareCell]]]:
    """What answers places: the cells of each."""
    grid = options.grid(subject, book)
    return lambda places: [grid.cells(*place, every=options.every) for place in places]


def _first(grid: HardwareGrid, meeting: Sequence[HardwareCell]) -> MemoryQuestion | None:
    """The question about the first cell, at the context of the first line; None where none meets."""
    if not meeting:
        return None
    # other processes sent figures alone
    choice = grid.cells(meeting[0].device, meeting[0].count, meeting[0].of_engine)[0].choice
    return choice.at(choice.context or 1) if isinstance(choice, Choice) else None


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
