"""Cells of `archcli choose`: so many of a device with a format of the model, its price, and the front."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from math import inf
from operator import attrgetter
from typing import Any, Literal, NamedTuple

from archcli.errors import ArchError
from archcli.measure.kvcache.engine import InferenceEngine
from archcli.modules.spec.arguments import EngineName
from archcli.wings.serving.api.choosing.shared import SharedQuestions
from archcli.wings.serving.api.choosing.training import TimedStep, TrainingQuestions
from archcli.wings.serving.api.fitting.choice import Choice
from archcli.wings.serving.api.known_device.known import devices_per_node
from archcli.wings.serving.api.known_device.listed import ListedDevice
from archcli.wings.serving.devices.prices import Price, PriceBook
from archcli.wings.serving.launches.memory.trainer import Trainer
from archcli.wings.serving.memory.answers.verdict import Verdict
from archcli.wings.serving.memory.plan import Plan

Record = dict[str, Any]
ChooseOrder = Literal["price", "speed", "power"]
Place = tuple[ListedDevice, int, EngineName | None]
"""A device, how many of it, and the engine; None for the usual one."""
COUNTS = (1, 2, 4, 8)
"""Numbers of a device that people put into one machine."""


@dataclass(frozen=True)
class Conditions:
    """What the devices must do.

    rate: tokens a second of all sequences together as expected, None for any. users: sequences at once.
    budget, per_hour: the most that all devices may cost, to buy or for an hour; None for any price.
    """

    rate: float | None = None
    users: int = 1
    budget: float | None = None
    per_hour: float | None = None

    def price_of(self, book: PriceBook, device: str, count: int) -> Price | None:
        """The price that counts: for an hour where that is asked, else to buy."""
        return (book.purchase if self.per_hour is None else book.hourly)(device, count)

    def pays(self, price: Price | None) -> bool:
        """Whether a price is known and low enough; any where none is asked."""
        return self.most is None or (price is not None and price.amount <= self.most)

    @property
    def most(self) -> float | None:
        """The most that all devices may cost."""
        return self.budget if self.per_hour is None else self.per_hour

    @property
    def limit(self) -> str:
        """The option that says so."""
        return "--budget" if self.per_hour is None else "--per-hour"


class ChoiceFigures(NamedTuple):
    """The figures of a choice or a step, by their names there."""

    format: str
    has_bits: bool
    engine: InferenceEngine | Trainer
    context: int | None
    verdict: Verdict | None
    tokens_per_s: Record
    speed: Record
    peak_bytes: int
    offload: str | None
    plan: Plan

    @property
    def promised(self) -> ChoiceFigures:
        """Itself: its plan is that of the tokens that fit."""
        return self

    def record(self) -> Record:
        """The figures by JSON's keys."""
        figures = self._asdict()
        return {name: figures[name] for name in OF_CHOICE}


FIGURES = attrgetter(*ChoiceFigures._fields[:-1], "promised.plan")
OF_CHOICE = ("format", "context", "tokens_per_s", "peak_bytes", "offload")
"""JSON's keys of a format, null where none fits."""


@dataclass(frozen=True)
class HardwareCell:
    """So many of a device with a format of the model; without a choice no format fits.

    holds: whether the format has enough bits, too. refusal: why the question cannot be asked there.
    of_engine: the engine in question; None for the usual one.
    """

    device: ListedDevice
    count: int
    choice: Choice | TimedStep | ChoiceFigures | None
    holds: bool
    price: Price | None
    conditions: Conditions
    refusal: ArchError | None = None
    of_engine: EngineName | None = None

    @property
    def name(self) -> str:
        """The devices as --device takes them: 2xrtx-3090."""
        return self.device.name if self.count == 1 else f"{self.count}x{self.device.name}"

    @cached_property
    def rate(self) -> float:
        """Expected tokens a second of all users; 0 where a limit alone is known."""
        return 0.0 if self.choice is None else self.choice.tokens_per_s["expected"] or 0.0

    @property
    def is_fast(self) -> bool:
        """Whether each user gets the speed as expected."""
        return self.conditions.rate is None or self.rate >= self.conditions.rate

    @property
    def meets(self) -> bool:
        """Whether the cell meets all conditions."""
        return self.holds and self.conditions.pays(self.price) and self.is_fast

    @property
    def limit_w(self) -> float | None:
        """The power limit of all devices in W; None where no datasheet states it."""
        limit = self.device.figures.get("tdp_w")
        return None if limit is None else self.count * limit

    @cached_property
    def watts(self) -> Record | None:
        """What all devices draw while they generate: low, expected and high; None where that is unknown."""
        energy = None if self.choice is None else self.choice.speed.get("energy")
        return energy and energy["watts"]

    @cached_property
    def costs(self) -> tuple[float, float, float]:
        """Price, tokens a second below 0, and expected watts, else the limit: the less the better.

        What is unknown is worst.
        """
        watts = self.limit_w if self.watts is None else self.watts["expected"]
        return (inf if self.price is None else self.price.amount, -self.rate, watts or inf)

    def __getstate__(self) -> Record:
        """The cell as another process gets it: figures, without the passes that they come from."""
        choice = None if self.choice is None else ChoiceFigures(*FIGURES(self.choice))
        return {**vars(self), "choice": choice}

    @cached_property
    def record(self) -> Record:
        """The cell by JSON's keys."""
        choice = self.choice
        price = self.price
        return {
            "device": self.device.name,
            "count": self.count,
            "engine": choice and choice.engine.name,
            **(dict.fromkeys(OF_CHOICE) if choice is None else choice.record()),
            "offload": choice and choice.offload,
            "fits": choice is not None,
            "verdict": "no" if choice is None else choice.verdict,
            "meets": self.meets,
            "price": None if price is None else asdict(price),
            "watts": self.watts,
            "limit_w": self.limit_w,
        }


class HardwareGrid:
    """All devices and counts for a model, and the cells of each pair of both."""

    def __init__(
        self,
        questions: Mapping[EngineName | None, SharedQuestions | TrainingQuestions],
        devices: Sequence[ListedDevice],
        book: PriceBook,
        conditions: Conditions,
    ) -> None:
        self.questions, self.devices, self.book, self.conditions = questions, devices, book, conditions

    def places(self) -> Iterator[Place]:
        """Each device as often as one machine joins it: Macs, boards and processors stand alone."""
        for device in self.devices:
            most = 1 if device.kind == "cpu" else devices_per_node(device.figures)
            yield from ((device, count, it) for count in COUNTS if count <= most for it in self.questions)

    def cells(
        self, device: ListedDevice, count: int, engine: EngineName | None, *, every: bool = False
    ) -> list[HardwareCell]:
        """The best cell, and with `every` that of each further format that fits.

        The best has the format that `archcli fit` chooses of those that are fast enough, else the fastest.
        """
        choices, refusal, questions = list[Choice | TimedStep | None](), None, self.questions[engine]
        try:
            if isinstance(questions, TrainingQuestions):
                choices = [questions.step(device.name, count)]
            else:
                formats = questions.formats(device.name, count, self.conditions.rate)
                choices = [formats.best() or formats.fastest]
                choices[0] = choices[0] or questions.offloaded(device.name, count, self.conditions.rate)
                choices += [it for it in formats.with_bits() if it is not choices[0]] if every else ()
        except ArchError as error:  # no engine or trainer runs so there
            refusal = error
        price = self.conditions.price_of(self.book, device.name, count)
        kept = [(choice, choice is not None and choice.has_bits) for choice in choices or [None]]
        return [HardwareCell(device, count, *it, price, self.conditions, refusal, engine) for it in kept]


def front(cells: Sequence[HardwareCell]) -> list[HardwareCell]:
    """The cells that no other beats: one as cheap, as fast and as saving, and better in one of them."""
    kept: list[HardwareCell] = []
    for cell in sorted(cells, key=lambda cell: cell.costs):
        # a cell that beats this one stands before it
        if not any(all(a <= b for a, b in zip(it.costs, cell.costs, strict=True)) for it in kept):
            kept.append(cell)
    return kept


def ordered(cells: Sequence[HardwareCell], order: ChooseOrder) -> list[HardwareCell]:
    """The cells by price, speed or power, the best first; of equal ones the better in the rest."""
    first = {"price": 0, "speed": 1, "power": 2}[order]
    return sorted(cells, key=lambda cell: (cell.costs[first], *cell.costs, cell.name))
