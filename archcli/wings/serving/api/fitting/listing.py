"""The report of what fits a device: presets, or the model files of this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from archcli.errors import ArchError, UnknownFormError
from archcli.measure.report import Column, Report, Table
from archcli.wings.serving.api.fitting.choice import UNKNOWN, Record
from archcli.wings.serving.api.fitting.fit_question import FitQuestion
from archcli.wings.serving.api.fitting.formats import Formats
from archcli.wings.serving.api.fitting.forms import MIN_BITS, has_bits
from archcli.wings.serving.api.fitting.verdict import CONVENTION, OF_A_CHOICE, figures_of

SHOWN = 10
"""Rows printed without --verbose."""
KEYS = ("model", "format", "fits", "verdict", "context", "peak_bytes", "tokens_per_s")
OF_FILES = ("file", "bytes")
MODEL = Column("model", "model")
SIZES = {
    "presets": Column("params", "params", "count", minor=True),
    "model files": Column("bytes", "bytes", "bytes", minor=True),
}
"""The column of a model's size: parameters of presets, bytes of model files."""
SPEED = "tokens_per_s"
NOTHING: Record = {**dict.fromkeys(("format", "context", "peak_bytes")), SPEED: UNKNOWN}
FitOrder = Literal["size", "speed"]


class Entry(NamedTuple):
    """A model of the list.

    least_bytes: lower bound of its weights' bytes. question: loads it, and asks about it alone.
    longest: its max_seq_len; None where unknown. columns: further values of its row, such as its file.
    """

    name: str
    least_bytes: float
    question: Callable[[], FitQuestion]
    longest: int | None = None
    columns: Mapping[str, Any] = MappingProxyType({})


class ListQuestion(NamedTuple):
    """The question of `archcli fit` about many models on one device.

    device: its name, `2xh100-sxm`.
    total_bytes: memory of all devices, and the RAM of an offload.
    order: largest or fastest model first.
    context: tokens that must fit; None for any.
    min_speed: tokens a second to expect at least.
    what: the models, a key of SIZES.
    min_bits: models that fit in forms of fewer bits a weight alone stand last.
    """

    device: str
    total_bytes: int
    order: FitOrder = "size"
    context: int | None = None
    min_speed: float | None = None
    what: str = "presets"
    min_bits: float = MIN_BITS


Tick = Callable[[str, int, int], None]


class ListedRow(Mapping[str, Any]):
    """A row whose speed is predicted when it is read: a table prints ten of two hundred."""

    def __init__(self, record: Record, speed: Callable[[], Record] | None = None) -> None:
        self._record, self._speed = record, speed

    def __getitem__(self, name: str) -> Any:
        if name == SPEED and self._speed is not None:
            self._record[SPEED], self._speed = self._speed(), None
        return self._record[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._record)

    def __len__(self) -> int:
        return len(self._record)


def fit_all(
    entries: Sequence[Entry], question: ListQuestion, inputs: Record, tick: Tick, *, verbose: bool
) -> Report:
    """The report on all entries; an interrupt ends it early. `tick(name, i, n)` is called before each."""
    rows, problems, n_entries = list[ListedRow](), list[str](), len(entries)
    try:
        for i, entry in enumerate(entries):
            tick(entry.name, i, n_entries)
            rows.append(_answered(entry, question, problems))
    except KeyboardInterrupt:
        if not rows:
            raise
        entries = entries[: len(rows)]
    left = n_entries - len(entries)
    rows.sort(key=ORDERS[question.order])
    rows.sort(key=lambda row: not has_bits(row["format"], question.min_bits))
    fitting = [row for row in rows if row["fits"]]
    shown = [{**row, **figures_of(row["tokens_per_s"])} for row in (fitting if verbose else fitting[:SHOWN])]
    columns = (MODEL, SIZES[question.what], *OF_A_CHOICE) if shown else ()
    return Report(
        command="fit",
        model={},
        inputs=inputs,
        convention=CONVENTION if fitting else "",
        totals={
            "fitting": len(fitting),
            "asked": len(entries),
            "device": question.device,
            **({"left": left} if left else {}),
        },
        rows=rows,
        headline=_headline(fitting, entries, question),
        tables=(Table("what fits", columns, shown),) if shown else (),
        notes=(*_interrupted(left), *_notes(fitting, shown, question), *_short(entries, question), *problems),
        keys=(*(OF_FILES if question.what != "presets" else ()), *KEYS),
    )


def _answered(entry: Entry, question: ListQuestion, problems: list[str]) -> ListedRow:
    """The row of a model; a problem with it is added to `problems`."""
    try:
        return _row(entry, question)
    except UnknownFormError as error:
        problems.append(f"{entry.name}: {error}")
        return ListedRow({**_of(entry), "fits": None, "verdict": "unknown", **NOTHING})
    except ArchError as error:
        problems.append(f"{entry.name}: {error}")
        return _misfit(entry)


def _interrupted(left: int) -> Iterator[str]:
    if left:
        yield f"Interrupted: {left} more were not asked."


def _headline(fitting: Sequence[ListedRow], entries: Sequence[Entry], question: ListQuestion) -> str:
    fast = "" if question.min_speed is None else f" at {question.min_speed:g} tokens/s or more"
    by = "largest" if question.order == "size" else "fastest"
    end = f", the {by} first" if fitting else ""
    return f"{len(fitting)} of {len(entries)} {question.what} fit {question.device}{fast}{end}"


def _notes(fitting: Sequence[ListedRow], shown: Sequence[Record], question: ListQuestion) -> Iterator[str]:
    few = sum(not has_bits(row["format"], question.min_bits) for row in fitting)
    if few:
        yield f"{few} fit in fewer than {question.min_bits:g} bits a weight alone and stand last: --min-bits."
    if len(shown) < len(fitting):
        yield f"{len(fitting) - len(shown)} more fit: --verbose shows all, --where and --min-speed fewer."


def _short(entries: Sequence[Entry], question: ListQuestion) -> Iterator[str]:
    short = sum(_is_short(entry, question) for entry in entries)
    if short:
        yield f"{short} of them know fewer than {question.context:,} tokens."


def _row(entry: Entry, question: ListQuestion) -> ListedRow:
    """The row of a model."""
    # tracing a pass is slow: skip models that are too large, or trained for fewer tokens
    if entry.least_bytes > question.total_bytes or _is_short(entry, question):
        return _misfit(entry)
    formats = Formats(entry.question())
    best = formats.best()
    if best is None:
        return _misfit(entry)
    record = {**_of(entry), "fits": True, "verdict": best.verdict}
    figures = {"format": best.format, "context": best.context, SPEED: None, "peak_bytes": best.peak_bytes}
    return ListedRow({**record, **figures}, lambda: best.tokens_per_s)


def _is_short(entry: Entry, question: ListQuestion) -> bool:
    return question.context is not None and entry.longest is not None and question.context > entry.longest


def _of(entry: Entry) -> Record:
    return {**entry.columns, "model": entry.name}


def _misfit(entry: Entry) -> ListedRow:
    return ListedRow({**_of(entry), "fits": False, "verdict": "no", **NOTHING})


def _by_size(row: ListedRow) -> tuple[Any, ...]:
    return (not row["fits"], -(row.get("params") or row.get("bytes") or 0), row["model"])


def _by_speed(row: ListedRow) -> tuple[Any, ...]:
    # a limit says nothing of how fast it is
    expected = row["tokens_per_s"]["expected"] or 0
    return (not row["fits"], -expected, row["model"])


ORDERS: dict[FitOrder, Callable[[ListedRow], tuple[Any, ...]]] = {
    "size": _by_size,
    "speed": _by_speed,
}
