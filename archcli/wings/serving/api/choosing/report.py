"""The report of `archcli choose`: the devices that come first, and those that nothing beats."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from archcli.measure.report import Column, Report, Table
from archcli.units import three_figures
from archcli.wings.serving.api.choosing.cells import ChooseOrder, Conditions, HardwareCell, front, ordered
from archcli.wings.serving.api.fitting.choice import UNKNOWN
from archcli.wings.serving.api.fitting.verdict import CONVENTION, OF_A_CHOICE, figures_of
from archcli.wings.serving.devices.prices import PriceBook, money
from archcli.wings.serving.memory.answers.tables import plan_in_words
from archcli.wings.serving.predict.answers.limits import rate_in_words

SHOWN = 10
"""The most lines without --all."""
KEYS = (
    *("device", "count", "format", "engine", "context", "tokens_per_s", "peak_bytes", "offload", "fits"),
    *("verdict", "meets", "price", "watts", "limit_w", "command"),
)
COLUMNS = (
    Column("devices", "devices"),
    Column("cost", "price"),
    *OF_A_CHOICE[:3],
    Column("range", "range", minor=True),
    Column("watts", "watts", "number", minor=True),
    Column("engine", "engine", minor=True),
)
IN_RAM = Column("in RAM", "offload")


class ChooseView(NamedTuple):
    """The conditions of a question, its order and prices, whether every cell is shown, and all places."""

    conditions: Conditions
    order: ChooseOrder
    book: PriceBook
    shows_all: bool = False
    n_places: int = 0

    def meeting(self, best: Sequence[HardwareCell]) -> list[HardwareCell]:
        """The cells that meet all conditions, in order."""
        return ordered([cell for cell in best if cell.meets], self.order)


def choose_cells(
    view: ChooseView,
    best: Sequence[HardwareCell],
    every: Sequence[HardwareCell],
    inputs: Mapping[str, Any],
    alone: Callable[[HardwareCell], str],
) -> Report:
    """The report on the best cell of each device and count, and with --all on `every` cell.

    `alone` is the command that answers a cell alone.
    """
    meeting = view.meeting(best)
    rows = ordered(every if view.shows_all else front(meeting), view.order)
    first = next(iter(meeting), None)
    shown = rows if view.shows_all else rows[:SHOWN]
    columns = (*COLUMNS, IN_RAM) if any(it.choice and it.choice.offload for it in shown) else COLUMNS
    title = "every cell" if view.shows_all else "what nothing beats in price, speed and watts"
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
            "places": view.n_places,
            "meeting": len(meeting),
        },
        rows=[{**cell.record, "command": alone(cell)} for cell in rows],
        headline=_headline(first, best, view),
        title=_title(best, inputs),
        tables=(Table(title, columns, [_line(cell) for cell in shown]),) if shown else (),
        notes=tuple(_notes(view, first, best, len(rows) - len(shown))),
        keys=KEYS,
    )


def _title(best: Sequence[HardwareCell], inputs: Mapping[str, Any]) -> str:
    """`serving, 4 x 8,192 tokens, 307 devices, of each 1, 2, 4 or 8`."""
    doing = "serving" if inputs["phase"] == "serve" else "training"
    tokens = "usual contexts" if inputs["context"] is None else f"{inputs['context']:,} tokens"
    of_pass = f"{inputs['users']:,} x {tokens}"
    n_devices, counts = len({cell.device.name for cell in best}), sorted({cell.count for cell in best})
    several = f", of each {', '.join(map(str, counts[:-1]))} or {counts[-1]}" if len(counts) > 1 else ""
    return f"{doing}, {of_pass}, {n_devices} device{'s' * (n_devices > 1)}{several}"


def in_words(cell: HardwareCell) -> str:
    """`2 x rtx-3090`."""
    return cell.device.name if cell.count == 1 else f"{cell.count} x {cell.device.name}"


def _headline(first: HardwareCell | None, best: Sequence[HardwareCell], view: ChooseView) -> str:
    if first is None or first.choice is None:
        return "\n".join((f"nothing meets {_conditions(view.conditions)}", *_nearest(best, view.conditions)))
    choice = first.choice
    price = "no price known" if first.price is None else first.price.text
    tokens = "no context" if choice.context is None else f"{choice.context:,} tokens"
    rate = rate_in_words(choice.tokens_per_s)
    users = view.conditions.users
    of_each = f" of all, {three_figures(first.rate / users)} each" if users > 1 and first.rate else ""
    return f"{in_words(first)}, {price}: {choice.format}, {tokens}, {rate}{of_each}"


def _conditions(conditions: Conditions) -> str:
    """`20 tokens/s and --budget 1500`: the conditions, in words."""
    parts: list[str] = [] if conditions.rate is None else [f"{conditions.rate:,.4g} tokens/s"]
    if conditions.most is not None:
        parts.append(f"{conditions.limit} {conditions.most:g}")
    return " and ".join(parts) or "the context"


def _nearest(best: Sequence[HardwareCell], conditions: Conditions) -> Iterator[str]:
    """What comes nearest, and the condition to loosen."""
    holding = [cell for cell in best if cell.holds]
    if not holding:
        yield "None of these devices holds the model: fewer --min-bits, less --context, or other --devices."
    fast = [cell for cell in holding if cell.is_fast and cell.price is not None]
    cheapest = min(fast, key=lambda cell: cell.costs, default=None)
    if cheapest is not None and cheapest.price is not None and conditions.most is not None:
        price = money(cheapest.price.amount, cheapest.price.currency)
        which = "holds it" if conditions.rate is None else "is fast enough"
        yield f"The cheapest that {which} is {in_words(cheapest)}, {price}: loosen {conditions.limit}."
    paid = [cell for cell in holding if conditions.pays(cell.price)]
    fastest = max(paid, key=lambda cell: cell.rate, default=None)
    if fastest is not None and fastest.choice is not None and conditions.rate is not None:
        rate = rate_in_words(fastest.choice.tokens_per_s)
        within = f" within {conditions.limit}" * (conditions.most is not None)
        which = f"{in_words(fastest)}, {rate} as {fastest.choice.format}"
        yield f"The fastest{within} is {which}: loosen --speed or --within."


def _line(cell: HardwareCell) -> dict[str, Any]:
    """The cell as the table shows it."""
    record = cell.record
    price = cell.price
    rates = figures_of(record["tokens_per_s"] or UNKNOWN)
    cost = None if price is None else money(price.amount, price.currency)
    watts = record["watts"] and round(record["watts"]["expected"])
    of_hour = " an hour" if price is not None and price.kind == "hour" else ""
    line = {**record, **rates, "watts": watts or cell.limit_w, "estimates": [] if watts else ["watts"]}
    return {**line, "devices": in_words(cell), "cost": cost and f"{cost}{of_hour}"}


def _notes(
    view: ChooseView, first: HardwareCell | None, best: Sequence[HardwareCell], hidden: int
) -> Iterator[str]:
    book, conditions = view.book, view.conditions
    if len(best) < view.n_places:
        yield f"interrupted after {len(best):,} of {view.n_places:,} places: the others may do better."
    yield f"Prices: {book.title}, {book.date}; what you would pay stands in a file of yours: --prices FILE."
    unknown = sum(cell.holds and cell.price is None for cell in best)
    if unknown:
        kind = "to buy" if conditions.per_hour is None else "for an hour"
        stand = "stand last" if conditions.budget is conditions.per_hour is None else "are left out"
        yield f"{unknown} that hold the model have no price {kind} and {stand}."
    limits = sum(cell.holds and not cell.rate for cell in best)
    if limits and conditions.rate is not None:
        yield f"{limits} that hold the model have a limit of speed alone, which meets no --speed."
    if first is not None and first.choice is not None and first.count > 1:
        yield f"{in_words(first)} share the model: {plan_in_words(first.choice.promised.plan)}."
    if first is not None and first.choice is not None and first.choice.offload is not None:
        yield f"{in_words(first)} leaves a part in RAM: --offload {first.choice.offload}."
    if first is not None and first.choice is not None and first.choice.verdict == "tight":
        yield f"{in_words(first)} is tight: `archcli fit` says how many tokens fit surely."
    if hidden > 0:
        yield f"{hidden} more that nothing beats: --json has all of them, --all every cell."
