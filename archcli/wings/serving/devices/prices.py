"""Prices of devices and instances: a YAML file with where and when each was read, and its reader.

title: what my dealers ask
currency: USD
prices:
  - {device: rtx-3090, price: 650, kind: used, where: "a dealer", date: 2026-11-28}
  - {device: a3-highgpu-8g, price: 88.49, kind: hour, where: "Google, us-central1", date: 2026-11-28}
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, date, datetime
from functools import cache
from itertools import chain
from math import ceil
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from archcli.errors import ArchError, Problem, either, install, quote, suggest
from archcli.load.presets import shipped
from archcli.load.yaml.nodes import Node, plain, shown
from archcli.load.yaml.reader import parse
from archcli.load.yaml.text import decode, read_start, text_of
from archcli.wings.serving.devices.datasheet import device_named, load_datasheet
from archcli.wings.serving.devices.instances import counted, instance_of
from archcli.wings.serving.devices.names import is_listed_name, split_count

Kind = Literal["new", "used", "hour"]
KINDS: tuple[Kind, ...] = get_args(Kind)
FILE = Path("prices", "published.yaml")
"""The shipped file, below the folder of devices."""
GPUHUNT = "gpuhunt"
OF_GPUHUNT = "GPUHUNT_CATALOG_DIR"
SHIPPED = "shipped"
OF_FILE = ("title", "currency", "date", "where", "prices")
NEEDED = ("device", "price", "kind", "where", "date")
CURRENCY = re.compile(r"[A-Z]{3}")
LARGEST = 1e12
MOST_BYTES = 1 << 20
SIGNS = {"USD": "$", "EUR": "€", "GBP": "£", "JPY": "¥"}
EXAMPLE = "{device: rtx-3090, price: 650, kind: used, where: a dealer, date: 2026-11-28}"


@dataclass(frozen=True, slots=True)
class Price:
    """What `count` devices cost: to buy, new or used, or for an hour; where and when that was read."""

    amount: float
    currency: str
    kind: Kind
    where: str
    date: str
    count: int

    @property
    def text(self) -> str:
        """`$1,300 used (a dealer, 2026-11-28)`."""
        per = "an hour" if self.kind == "hour" else self.kind
        return f"{money(self.amount, self.currency)} {per} ({self.where}, {self.date})"


def money(amount: float, currency: str) -> str:
    """An amount of a currency: $1,599, $2.49, 1,200 CHF."""
    digits = 0 if amount == int(amount) else 2
    number = f"{amount:,.{digits}f}"
    return f"{SIGNS[currency]}{number}" if currency in SIGNS else f"{number} {currency}"


class Offer(NamedTuple):
    """The price of `number` devices together, as a file names them; `memory_gb` None where it says none."""

    named: str
    number: int
    memory_gb: int | None
    price: Price

    def of(self, count: int) -> Price:
        """The price of at least `count` devices: whole instances are paid."""
        packs, where = ceil(count / self.number), self.price.where
        if self.number > 1:
            where += f", {f'{packs} x ' if packs > 1 else ''}{self.named}"
        return replace(self.price, amount=packs * self.price.amount, where=where, count=count)


class PriceBook(NamedTuple):
    """Prices by device: whose, of which day, in which currency."""

    title: str
    date: str
    currency: str
    offers: Mapping[str, tuple[Offer, ...]]

    def price(self, device_name: str, count: int = 1) -> Price | None:
        """What so many devices cost to buy, else for an hour; None where nobody says."""
        return self.purchase(device_name, count) or self.hourly(device_name, count)

    def purchase(self, device_name: str, count: int = 1) -> Price | None:
        """The lowest price to buy so many devices, new or used."""
        return self._lowest(device_name, count, KINDS[:2])

    def hourly(self, device_name: str, count: int = 1) -> Price | None:
        """The lowest price of so many devices for an hour."""
        return self._lowest(device_name, count, KINDS[2:])

    def _lowest(self, device_name: str, count: int, kinds: tuple[Kind, ...]) -> Price | None:
        known = [offer.of(count) for offer in self._of_device(device_name) if offer.price.kind in kinds]
        return min(known, key=lambda price: price.amount, default=None)

    def _of_device(self, device_name: str) -> list[Offer]:
        """The offers of a device, or of that instance alone."""
        if instance := instance_of(device_name):
            offers = self.offers.get(instance.device, ())
            return [offer for offer in offers if offer.named.lower() == device_name.lower()]
        if not is_listed_name(device_name):
            return []
        name, memory_gb, _ = device_named(device_name)
        offers = self.offers.get(name, ())
        label = load_datasheet(name).figures.get("memory_gb")
        usual = label and int(label.value)
        return [offer for offer in offers if (offer.memory_gb or usual) == (memory_gb or usual)]


def prices(source: str | Path | None = None) -> PriceBook:
    """The prices of a YAML file, those that come with archcli (None or "shipped"), or gpuhunt's catalogue.

    Raises ArchError with all that is wrong with a file.
    """
    if source in {None, SHIPPED}:
        return _published(shipped("devices") / FILE)
    return _catalogue() if source == GPUHUNT else _read(Path(str(source)), str(source))


def price_of_hour(device: str, source: str, price_per_hour: float | None = None) -> dict[str, Any]:
    """The lowest price of an hour of so many devices, or of that instance, by JSON's keys.

    Raises ArchError where the prices have none, and beside a price that is stated.
    """
    if price_per_hour is not None:
        raise ArchError("--prices and --price-per-hour are two prices", "leave one of them out")
    book, name, (count, _) = prices(source), split_count(device)[1], counted(device)
    price = book.hourly(name, count)
    if price is None:
        bought = book.purchase(name, count)
        hint = f"it has {bought.text}; " if bought else ""
        what = f"{book.title}: no price of an hour of {device}"
        raise ArchError(what, f"{hint}--price-per-hour, or a file with one")
    return {**asdict(price), "text": f"{price.text}, of {book.title}"}


def _catalogue() -> PriceBook:
    """On-demand prices of gpuhunt's catalogue in the folder that it reads in place of the network."""
    try:
        from gpuhunt import Catalog
    except ImportError:
        raise ArchError("gpuhunt is not installed", install("gpuhunt")) from None
    place = os.environ.get(OF_GPUHUNT, "")
    files = sorted(Path(place).glob("*.csv")) if place else []
    if not files:
        hint = f"{OF_GPUHUNT} names the folder with its files, such as aws.csv; archcli does not fetch them"
        raise ArchError("gpuhunt has no catalogue on this machine", hint)
    catalog, last = Catalog(auto_reload=False), max(file.stat().st_mtime for file in files)
    items = (catalog.query(provider=file.stem, min_gpu_count=1, spot=False) for file in files)
    day = datetime.fromtimestamp(last, UTC).date().isoformat()
    return _book("gpuhunt's catalogue", day, "USD", (_hired(item, day) for item in chain(*items)))


def _hired(item: Any, day: str) -> tuple[str, Offer] | None:
    """The offer of an entry of gpuhunt; None for a device that archcli does not know."""
    known = instance_of(item.instance_name)
    memory = f" {item.gpu_memory:g}GB" if item.gpu_memory else ""
    try:
        name, memory_gb, _ = device_named(known.device if known else f"{item.gpu_name}{memory}")
    except ArchError:
        return None
    where = f"{item.provider}, {item.location}"
    price = Price(item.price, "USD", "hour", where, day, item.gpu_count)
    return name, Offer(item.instance_name, item.gpu_count, memory_gb, price)


@cache
def _published(path: Path) -> PriceBook:
    return _read(path, path.name)


def _book(title: str, day: str, currency: str, offers: Iterable[tuple[str, Offer] | None]) -> PriceBook:
    """The book of offers by device; without a day of its own, the last of theirs."""
    by_device: dict[str, tuple[Offer, ...]] = {}
    for name, offer in filter(None, offers):
        by_device[name] = (*by_device.get(name, ()), offer)
    days = (offer.price.date for offers_of in by_device.values() for offer in offers_of)
    return PriceBook(title, day or max(days, default=""), currency, by_device)


def _read(path: Path, name: str) -> PriceBook:
    document = parse(text_of(decode(read_start(path, name, MOST_BYTES), name), name))
    keys: Any = document.root.value if document.root is not None else None
    problems = [*document.problems, *_mistakes(keys if isinstance(keys, dict) else {}, name)]
    if problems:
        raise ArchError(problems)
    shared = {key: plain(node) for key, node in keys.items() if key != "prices"}
    offers = (_offer({**shared, **plain(entry)}) for entry in keys["prices"].value)
    return _book(shared.get("title", name), shared.get("date", ""), shared["currency"], offers)


def _offer(keys: Mapping[str, Any]) -> tuple[str, Offer]:
    """The device of an entry, and the offer."""
    number, text = counted(keys["device"])
    name, memory_gb, _ = device_named(text)
    price = Price(keys["price"], keys["currency"], keys["kind"], keys["where"], keys["date"], number)
    return name, Offer(keys["device"], number, memory_gb, price)


def _mistakes(keys: Mapping[str, Node], file: str) -> Iterator[Problem]:
    """What is wrong with a file of prices."""
    yield from _of_values(keys, OF_FILE)
    if "prices" in keys and "currency" not in keys:
        yield Problem("no currency is stated", "one for all prices of the file: currency: USD", path=file)
    entries: Any = keys["prices"].value if "prices" in keys else None
    if not isinstance(entries, list) or not entries:
        yield Problem("no prices are stated", f"prices: [{EXAMPLE}]", path=file)
        return
    for entry in entries:
        yield from _of_entry(entry, keys)


def _of_entry(entry: Node, shared: Mapping[str, Node]) -> Iterator[Problem]:
    keys: Any = entry.value
    mark = entry.where.mark()
    if not isinstance(keys, dict):
        yield Problem(f"{shown(entry)} is no price", f"such as {EXAMPLE}", mark)
        return
    for missing in (key for key in NEEDED if key not in keys and key not in shared):
        yield Problem(f"a price without {missing}", f"such as {EXAMPLE}", mark)
    yield from _of_values(keys, (*NEEDED, "currency"))
    said, of_file = (plain(place["currency"]) if "currency" in place else None for place in (keys, shared))
    if said and of_file and said != of_file:
        what = f"a price in {said}, and the file is in {of_file}"
        yield Problem(what, "one currency a file: convert it, or write another file", mark)


def _of_values(keys: Mapping[str, Node], allowed: tuple[str, ...]) -> Iterator[Problem]:
    for key, node in keys.items():
        if key not in allowed:
            yield Problem(f"unknown key {quote(key)}", suggest(key, allowed), (node.key or node.place).mark())
        elif key == "device":
            yield from _of_device(node)
        elif key in VALUES and not VALUES[key][0](plain(node)):
            yield Problem(f"{key} is {shown(node)}", VALUES[key][1], node.where.mark())


def _of_device(node: Node) -> Iterator[Problem]:
    try:
        device_named(counted(str(node.value))[1])
    except ArchError as unknown:
        yield replace(unknown.problems[0], mark=node.where.mark())


def _is_price(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= LARGEST


def _is_day(value: Any) -> bool:
    try:
        return bool(date.fromisoformat(value))
    except (TypeError, ValueError):
        return False


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


VALUES: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "price": (_is_price, "a number from 0 up"),
    "kind": (lambda value: value in KINDS, f"it is {either(KINDS)}"),
    "date": (_is_day, "a day such as 2026-11-28"),
    "currency": (lambda value: bool(CURRENCY.fullmatch(str(value))), "three letters such as USD"),
    **dict.fromkeys(("where", "title"), (_is_text, "a text")),
}
"""What a key takes, and how to mend another value."""
