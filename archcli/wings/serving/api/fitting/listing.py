"""The report of what fits a device: presets, or the model files of this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from archcli.errors import ArchError, UnknownFormError
from archcli.measure.report import Column, Report, Table
from archcli.wings.serving.api.fitting.choice import UNKNOWN, FitAsked, Formats, Record
from archcli.wings.serving.api.fitting.verdict import CONVENTION, OF_A_CHOICE, figures_of

SHOWN = 10
"""Rows that are printed, unless all are asked for."""
KEYS = ("model", "format", "fits", "context", "peak_bytes", "tokens_per_s")
OF_FILES = ("file", "bytes")
MODEL = Column("model", "model")
SIZES = {
    "presets": Column("params", "params", "count", minor=True),
    "model files": Column("bytes", "bytes", "bytes", minor=True),
}
"""What is asked about, and the column of its size."""
FitOrder = Literal["size", "speed"]


class Entry(NamedTuple):
    """A model to ask about: its name, bytes that its weights need at least, and what is asked of it.

    `longest` are the tokens that it knows, None where nothing says; `beside` further values of its row, such
    as its file.
    """

    name: str
    least_bytes: float
    asked: Callable[[], FitAsked]
    longest: int | None = None
    beside: Mapping[str, Any] = MappingProxyType({})


class Asked(NamedTuple):
    """What is asked of all: on which device, of how much memory in all, in which order; `what` of SIZES."""

    device: str
    total_bytes: int
    order: FitOrder = "size"
    context: int | None = None
    min_speed: float | None = None
    what: str = "presets"


Tick = Callable[[str, int, int], None]


def fit_all(entries: Sequence[Entry], asked: Asked, inputs: Record, tick: Tick, *, verbose: bool) -> Report:
    """The report on all entries; `tick` hears of each."""
    rows, problems = [], []
    for i, entry in enumerate(entries):
        tick(entry.name, i, len(entries))
        try:
            rows.append(_row(entry, asked))
        except UnknownFormError as error:
            rows.append({**_misfit(entry), "fits": None})
            problems.append(f"{entry.name}: {error}")
        except ArchError as error:
            rows.append(_misfit(entry))
            problems.append(f"{entry.name}: {error}")
    rows.sort(key=ORDERS[asked.order])
    fitting = [row for row in rows if row["fits"]]
    shown = [{**row, **figures_of(row["tokens_per_s"])} for row in (fitting if verbose else fitting[:SHOWN])]
    columns = (MODEL, SIZES[asked.what], *OF_A_CHOICE) if shown else ()
    return Report(
        command="fit",
        model={},
        inputs=inputs,
        convention=CONVENTION if fitting else "",
        totals={"fitting": len(fitting), "asked": len(entries), "device": asked.device},
        rows=rows,
        headline=_headline(fitting, entries, asked),
        tables=(Table("what fits", columns, shown),) if shown else (),
        notes=(*_notes(fitting, shown), *_short(entries, asked), *problems),
        keys=(*(OF_FILES if asked.what != "presets" else ()), *KEYS),
    )


def _headline(fitting: Sequence[Record], entries: Sequence[Entry], asked: Asked) -> str:
    fast = "" if asked.min_speed is None else f" at {asked.min_speed:g} tokens/s or more"
    by = "largest" if asked.order == "size" else "fastest"
    end = f", the {by} first" if fitting else ""
    return f"{len(fitting)} of {len(entries)} {asked.what} fit {asked.device}{fast}{end}"


def _notes(fitting: Sequence[Record], shown: Sequence[Record]) -> Iterator[str]:
    if len(shown) < len(fitting):
        yield f"{len(fitting) - len(shown)} more fit: --verbose shows all, --where and --min-speed fewer."


def _short(entries: Sequence[Entry], asked: Asked) -> Iterator[str]:
    short = sum(_is_short(entry, asked) for entry in entries)
    if short:
        yield f"{short} of them know fewer than {asked.context:,} tokens."


def _row(entry: Entry, asked: Asked) -> Record:
    """The row of a model; of one whose weights cannot fit, or that knows fewer tokens, nothing is traced."""
    if entry.least_bytes > asked.total_bytes or _is_short(entry, asked):
        return _misfit(entry)
    formats = Formats(entry.asked())
    best = formats.best()
    return _misfit(entry) if best is None else {**_of(entry), "fits": True, **best.record()}


def _is_short(entry: Entry, asked: Asked) -> bool:
    return asked.context is not None and entry.longest is not None and asked.context > entry.longest


def _of(entry: Entry) -> Record:
    return {**entry.beside, "model": entry.name}


def _misfit(entry: Entry) -> Record:
    nothing = dict.fromkeys(("format", "context", "peak_bytes"))
    return {**_of(entry), "fits": False, **nothing, "tokens_per_s": UNKNOWN}


def _by_size(row: Record) -> tuple[Any, ...]:
    return (not row["fits"], -(row.get("params") or row.get("bytes") or 0), row["model"])


def _by_speed(row: Record) -> tuple[Any, ...]:
    # a limit says nothing of how fast it is
    expected = row["tokens_per_s"]["expected"] or 0
    return (not row["fits"], -expected, row["model"])


ORDERS: dict[FitOrder, Callable[[Record], tuple[Any, ...]]] = {"size": _by_size, "speed": _by_speed}
