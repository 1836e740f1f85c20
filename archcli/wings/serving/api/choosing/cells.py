"""Cells of `archcli choose`: so many of a device with a format of the model, its price, and the front."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import Any, Literal

from archcli.errors import ArchError
from archcli.wings.serving.api.choosing.shared import SharedFormats, SharedQuestions
from archcli.wings.serving.api.fitting.choice import Choice
from archcli.wings.serving.api.fitting.forms import has_bits
from archcli.wings.serving.api.known_device.listed import ListedDevice
from archcli.wings.serving.devices.prices import Price, PriceBook

Record = dict[str, Any]
ChooseOrder = Literal["price", "speed", "power"]
COUNTS = (1, 2, 4, 8)
"""Numbers of a device that people put into one machine."""


@dataclass(frozen=True)
class Conditions:
    """What the devices must do.

    speed: tokens a second that each user gets as expected, None for any. users: sequences at once.
    budget, per_hour: the most that all devices may cost, to buy or for an hour; None for any price.
    """

    speed: float | None = None
    users: int = 1
    budget: float | None = None
    per_hour: float | None = None

    def price_of(self, book: PriceBook, device: str, count: int) -> Price | None:
        """The price that counts: for an hour where that is asked, else to buy."""
        return (book.purchase if self.per_hour is None else book.hourly)(device, count)

    def pays(self, price: Price | None) -> bool:
        """Whether a price is known and low enough; any where none is asked."""
        most = self.budget if self.per_hour is None else self.per_hour
        return most is None or (price is not None and price.amount <= most)


@dataclass(frozen=True)
class Cell:
    """So many of a device with a format of the model; without a choice no format fits."""

    device: ListedDevice
    count: int
    choice: Choice | None
    price: Price | None
    conditions: Conditions

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
        speed = self.conditions.speed
        return speed is None or self.rate >= speed * self.conditions.users

    @property
    def meets(self) -> bool:
        """Whether the cell meets all conditions."""
        return self.holds and self.conditions.pays(self.price) and self.is_fast

    @property
    def holds(self) -> bool:
        """Whether a format of enough bits fits; one that is named has them."""
        choice = self.choice
        return choice is not None and (
            choice.fit.dtype is not None or has_bits(choice.format, choice.fit.min_bits)
        )

    @property
    def watts(self) -> float | None:
        """The power limit of all devices; None where no datasheet states it."""
        each = self.device.figures.get("tdp_w")
        return None if each is None else self.count * each

    @property
    def costs(self) -> tuple[float, float, float]:
        """Price, tokens a second below 0, and watts: of each the less the better; what is unknown is worst."""
        return (inf if self.price is None else self.price.amount, -self.rate, self.watts or inf)

    def record(self) -> Record:
        """The cell by JSON's keys."""
        choice = self.choice
        of_choice = dict.fromkeys(("format", "context", "peak_bytes", "tokens_per_s"))
        price = self.price
        return {
            "device": self.device.name,
            "count": self.count,
            "engine": choice and choice.engine.name,
            **(of_choice if choice is None else choice.record()),
            "fits": choice is not None,
            "verdict": "no" if choice is None else choice.verdict,
            "meets": self.meets,
            "price": None if price is None else price_record(price),
            "watts": self.watts,
        }


def price_record(price: Price) -> Record:
    """A price by JSON's keys."""
    names = ("amount", "currency", "kind", "where", "date")
    return {name: getattr(price, name) for name in names}


class Grid:
    """All devices, counts and formats for a model, and a cell of each pair of device and count."""

    def __init__(
        self, shared: SharedQuestions, devices: Sequence[ListedDevice], book: PriceBook, conditions: Conditions
    ) -> None:
        self.shared, self.devices, self.book, self.conditions = shared, devices, book, conditions

    def places(self) -> Iterator[tuple[ListedDevice, int]]:
        """Each device as often as people join it: Macs and processors stand alone."""
        for device in self.devices:
            joins = device.kind != "cpu" and device.vendor != "Apple"
            yield from ((device, count) for count in (COUNTS if joins else COUNTS[:1]))

    def best(self, device: ListedDevice, count: int) -> Cell:
        """The format that `archcli fit` chooses, of those that are fast enough; else the fastest of all."""
        formats = self._formats(device, count)
        if formats is None:
            return self._cell(device, count, None)
        return self._cell(device, count, formats.best() or formats.fastest)

    def every(self, device: ListedDevice, count: int) -> Iterator[Cell]:
        """A cell for each format that fits; one without a choice where none does."""
        formats = self._formats(device, count)
        fitting = [] if formats is None else formats.with_bits()
        for choice in fitting or (None,):
            yield self._cell(device, count, choice)

    def _formats(self, device: ListedDevice, count: int) -> SharedFormats | None:
        """The formats on so many devices; None where no engine runs on them."""
        speed = self.conditions.speed
        try:
            return self.shared.formats(device.name, count, speed and speed * self.conditions.users)
        except ArchError:
            return None

    def _cell(self, device: ListedDevice, count: int, choice: Choice | None) -> Cell:
        price = self.conditions.price_of(self.book, device.name, count)
        return Cell(device, count, choice, price, self.conditions)


def front(cells: Sequence[Cell]) -> list[Cell]:
    """The cells that no other one beats: at least as cheap, as fast and as saving, and better in one of them."""
    kept: list[Cell] = []
    for cell in sorted(cells, key=lambda cell: cell.costs):
        # a cell that beats this one stands before it
        if not any(all(a <= b for a, b in zip(it.costs, cell.costs, strict=True)) for it in kept):
            kept.append(cell)
    return kept


def ordered(cells: Sequence[Cell], order: ChooseOrder) -> list[Cell]:
    """The cells by price, speed or power, the best first; of equal ones the better in the rest."""
    first = {"price": 0, "speed": 1, "power": 2}[order]
    return sorted(cells, key=lambda cell: (cell.costs[first], *cell.costs, cell.name))
