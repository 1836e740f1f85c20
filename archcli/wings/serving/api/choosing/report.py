"""The report of `archcli choose`: the devices that come first, and those that nothing beats."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from archcli.measure.report import Column, Report, Table
from archcli.units import three_figures
from archcli.wings.serving.api.choosing.cells import Cell, ChooseOrder, Conditions, front, ordered
from archcli.wings.serving.api.fitting.verdict import CONVENTION, OF_A_CHOICE, figures_of
from archcli.wings.serving.devices.prices import PriceBook, money
from archcli.wings.serving.memory.answers.tables import plan_in_words
from archcli.wings.serving.predict.answers.limits import rate_in_words

SHOWN = 10
"""The most lines without --all."""
KEYS = (
    *("device", "count", "format", "engine", "context", "tokens_per_s", "peak_bytes", "fits", "verdict"),
    *("meets", "price", "watts", "command"),
)
COLUMNS = (
    Column("devices", "devices"),
    Column("cost", "price"),
    *OF_A_CHOICE[:3],
    Column("range", "range", minor=True),
    Column("watts", "watts", "number", minor=True),
    Column("engine", "engine", minor=True),
)


class Asked(NamedTuple):
    """The conditions of a question, its order and prices, and whether every cell is shown."""

    conditions: Conditions
    order: ChooseOrder
    book: PriceBook
    shows_all: bool = False


def choose_cells(asked: Asked, best: Sequence[Cell], every: Sequence[Cell], inputs: dict[str, Any]) -> Report:
    """The report on the best cell of each device and count, and with --all on `every` cell."""
    meeting = ordered([cell for cell in best if cell.meets], asked.order)
    rows = ordered(every, asked.order) if asked.shows_all else ordered(front(meeting), asked.order)
    first = next(iter(meeting), None)
    shown = rows if asked.shows_all else rows[:SHOWN]
    title = "every cell" if asked.shows_all else "what nothing beats in price, speed and watts"
    return Report(
        command="choose",
        model={},
        inputs=inputs,
        convention=CONVENTION if first is not None else "",
        totals={
            "device": first and first.device.name,
            "count": first and first.count,
            "format": first and first.choice and first.choice.format,
            "asked": len(best),
            "meeting": len(meeting),
        },
        rows=[cell.record() for cell in rows],
        headline=_headline(first, best, asked),
        tables=(Table(title, COLUMNS, [_line(cell) for cell in shown]),) if shown else (),
        notes=tuple(_notes(asked, first, best, len(rows) - len(shown))),
        keys=KEYS,
    )


def in_words(cell: Cell) -> str:
    """`2 x rtx-3090`."""
    return cell.device.name if cell.count == 1 else f"{cell.count} x {cell.device.name}"


def _headline(first: Cell | None, best: Sequence[Cell], asked: Asked) -> str:
    if first is None or first.choice is None:
        return "\n".join((f"nothing meets {_conditions(asked.conditions)}", *_nearest(best, asked)))
    choice = first.choice
    price = "no price known" if first.price is None else first.price.text
    tokens = "no context" if choice.context is None else f"{choice.context:,} tokens"
    rate = rate_in_words(choice.tokens_per_s)
    users = asked.conditions.users
    of_each = f", {three_figures(first.rate / users)} each" if users > 1 and first.rate else ""
    return f"{in_words(first)}, {price}: {choice.format}, {tokens}, {rate}{of_each}"


def _conditions(conditions: Conditions) -> str:
    """`20 tokens/s, 1,500 in all`: what was asked, in words."""
    parts = ["the context"]
    if conditions.speed is not None:
        parts.append(f"{conditions.speed:g} tokens/s" + " each" * (conditions.users > 1))
    if conditions.budget is not None:
        parts.append(f"--budget {conditions.budget:g}")
    if conditions.per_hour is not None:
        parts.append(f"--per-hour {conditions.per_hour:g}")
    return " and ".join(parts)


def _nearest(best: Sequence[Cell], asked: Asked) -> Iterator[str]:
    """What comes nearest, and the condition to loosen."""
    conditions = asked.conditions
    fitting = [cell for cell in best if cell.holds]
    paid = [cell for cell in fitting if conditions.pays(cell.price)]
    fast = [cell for cell in fitting if cell.is_fast and cell.price is not None]
    if not fitting:
        yield "no device of these holds the model: fewer --min-bits, less --context, or other --devices"
        return
    limit = "--budget" if conditions.per_hour is None else "--per-hour"
    if fast and limit.removeprefix("--").replace("-", "_"):
        cell = min(fast, key=lambda cell: cell.costs)
        price = cell.price
        if price is not None and not conditions.pays(price):
            yield f"{in_words(cell)} would at {money(price.amount, price.currency)}: loosen {limit}"
    if paid and conditions.speed is not None:
        cell = max(paid, key=lambda cell: cell.rate)
        if cell.choice is not None:
            rate = rate_in_words(cell.choice.tokens_per_s)
            yield f"{in_words(cell)} comes nearest at {rate} as {cell.choice.format}: loosen --speed"


def _line(cell: Cell) -> dict[str, Any]:
    """The cell as the table shows it."""
    record = cell.record()
    price = cell.price
    rates = figures_of(record["tokens_per_s"]) if cell.choice is not None else {"expected": None, "range": None}
    cost = None if price is None else money(price.amount, price.currency)
    of_hour = " an hour" if price is not None and price.kind == "hour" else ""
    return {**record, **rates, "devices": in_words(cell), "cost": cost and f"{cost}{of_hour}"}


def _notes(asked: Asked, first: Cell | None, best: Sequence[Cell], hidden: int) -> Iterator[str]:
    book, conditions = asked.book, asked.conditions
    yield f"Prices: {book.title}, {book.date}; what you would pay stands in a file of yours: --prices FILE."
    unknown = sum(cell.holds and cell.price is None for cell in best)
    if unknown:
        kind = "to buy" if conditions.per_hour is None else "for an hour"
        stand = "stand last" if conditions.budget is conditions.per_hour is None else "are left out"
        yield f"{unknown} that hold the model have no price {kind} and {stand}."
    limits = sum(cell.holds and not cell.rate for cell in best)
    if limits and conditions.speed is not None:
        yield f"{limits} that hold the model have a limit of speed alone, which meets no --speed."
    if first is not None and first.choice is not None and first.count > 1:
        yield f"{in_words(first)} share the model: {plan_in_words(first.choice.promised.plan)}."
    if first is not None and first.choice is not None and first.choice.verdict == "tight":
        yield f"{in_words(first)} is tight: `archcli fit` says how many tokens fit surely."
    if hidden > 0:
        yield f"{hidden} more that nothing beats: --json has all of them, --all every cell."
