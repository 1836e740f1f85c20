"""Strips: all layers of a stack, one cell each or one cell a run, with what comes before and after them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from archcli.graph.wired_tape import WiredRow
from archcli.measure.survey.anatomy.records import Cell, Figure, Hue, Kind, Line, Run, Strip
from archcli.measure.survey.anatomy.roles import role_of
from archcli.measure.survey.stacks import Period, periods, stack_kinds
from archcli.modules import Model
from archcli.modules.spec.kinds import kind_of

MOST_CELLS = 110
"""As many layers have a cell each."""
NETWORKS: tuple[Hue, ...] = ("dense", "experts", "shared")
NAMES = {"lm_head": "LM head", "final_norm": "norm", "front_end": "convolutions"}
"""What is written on the boxes before and after the layers, where the row's name is not it."""
Marks = tuple[tuple[Hue, str], ...]


def strips_of(model: Model, rows: Sequence[WiredRow], kinds: Iterable[Kind]) -> tuple[Strip, ...]:
    """The strip of each stack."""
    by_path = {kind.path: kind for kind in kinds}
    stacks = list(stack_kinds(rows).items())
    last = len(stacks) - 1
    return tuple(
        Strip(
            title=(prefix.rstrip(".") or kind_of(model) or "layers").replace("_", " "),
            cells=tuple(cells_of(order, by_path)),
            runs=tuple(_run(number, i, run) for i, run in enumerate(periods(order))),
            n_layers=Figure(len(order), "show", "", f"stacks.{number}.n_layers"),
            before=_ends(model, rows, prefix, number == 0, before=True),
            after=_ends(model, rows, prefix, number == last, before=False),
            beside=_beside(model) if number == last else (),
        )
        for number, (prefix, order) in enumerate(stacks)
    )


def cells_of(order: Sequence[str], kinds: Mapping[str, Kind]) -> Iterator[Cell]:
    """A cell for each layer; of many layers one for each run of like ones, or of the same hues."""
    marks = {path: _marks(kinds[path]) for path in set(order)}
    if len(order) <= MOST_CELLS:
        for number, path in enumerate(order):
            yield Cell(number, 1, *marks[path], path)
        return
    runs = [(path, len(list(run))) for path, run in groupby(order)]
    if len(runs) > MOST_CELLS:
        # every layer differs: those of the same hues are one run, without letters
        marks = {path: _hues(of) for path, of in marks.items()}
        hues = ((key, list(run)) for key, run in groupby(order, lambda path: marks[path]))
        runs = [(run[0], len(run)) for _, run in hues]
    first = 0
    for path, count in runs:
        yield Cell(first, count, *marks[path], path)
        first += count


def _marks(kind: Kind) -> tuple[Marks, Marks]:
    """The hues and letters of a layer's mixers, and of its networks."""
    marks = [(node.hue, node.letter) for node in kind.nodes if node.role == "part"]
    mixers = tuple(mark for mark in marks if mark[0] not in NETWORKS)
    return mixers, tuple(mark for mark in marks if mark[0] in NETWORKS)


def _hues(marks: tuple[Marks, Marks]) -> tuple[Marks, Marks]:
    mixers, networks = (tuple((hue, "") for hue, _ in of) for of in marks)
    return mixers, networks


def _run(stack: int, place: int, period: Period) -> Run:
    """A brace with its label: `58 ×`, or `12 × (3 + 1)`."""
    key = f"stacks.{stack}.runs.{place}"
    lengths = [Figure(length, "show", "", f"{key}.lengths.{i}") for i, length in enumerate(period.lengths)]
    if period.times == 1:
        return Run(period.first, period.end, Line(lengths[0], " ×"))
    pieces: list[str | Figure] = [lengths[0]]
    for length in lengths[1:]:
        pieces += [" + ", length]
    times = Figure(period.times, "show", "", f"{key}.times")
    return Run(period.first, period.end, Line(times, " × (", *pieces, ")"))


def _ends(
    model: Model, rows: Sequence[WiredRow], prefix: str, is_end: bool, *, before: bool
) -> tuple[str, ...]:
    """The boxes before or after a stack's layers: one for each module or operation outside of them."""
    places = [
        i for i, row in enumerate(rows) if row.layers is not None and row.path.startswith(f"{prefix}layers.")
    ]
    near = rows[: places[0]] if before else rows[places[-1] + 1 :]
    names = []
    for row in near:
        if row.layers is not None or role_of(row) in ("aside", "view", "scale", "heads", "concat"):
            continue
        own, first = row.path.startswith(prefix) and bool(prefix), row.path.partition(".")[0]
        other = not own and "." in row.path and f"{first}." in _prefixes(rows)
        if own or (is_end and not other):
            names.append(row.path.removeprefix(prefix).partition(".")[0])
    return tuple(_named(model, name) for name in dict.fromkeys(names))


def _prefixes(rows: Iterable[WiredRow]) -> set[str]:
    return {row.path.partition("layers.")[0] for row in rows if row.layers is not None}


def _named(model: Model, name: str) -> str:
    if name == "lm_head" and model.embedding.tied:
        return "LM head, tied"
    return NAMES.get(name, name.replace("_", " "))


def _beside(model: Model) -> tuple[str, ...]:
    """What stands beside the layers: multi-token prediction, adapters."""
    named = {"MTP": bool(model.mtp_depth), "LoRA": model.lora is not None}
    return tuple(name for name, there in named.items() if there)
