"""The strip of a stack: a cell per layer or run of layers, and boxes before and after the layers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from archcli.graph.wired_tape import WiredRow, source_row
from archcli.measure.survey.joins import PROJECTOR, model_joins, tower_joins
from archcli.measure.survey.stacks import Period, periods, stack_kinds
from archcli.modules import Model
from archcli.modules.spec.kinds import kind_of
from archcli.wings.drawing.anatomy.roles import role_of
from archcli.wings.drawing.anatomy.titles import PHRASES
from archcli.wings.drawing.drawn import Cell, Figure, Hue, Kind, LayerRun, NumberedLine, Statement, Strip

MOST_CELLS = 110
"""The most layers with a cell each; of more a run of equal layers has one cell."""
MOST_LENGTHS = 4
"""The most runs of a period that its brace lists."""
SOURCES = ("encoder", "images")
"""Labels of what layers read from outside of their stack."""
SAME_BEGINNING = 2
"""The most boxes with a common first word; more are one box: altup_… becomes `altup`."""
FROZEN = "frozen_positional"
"""The group of a table of positions that is stored and not trained."""
NETWORKS: tuple[Hue, ...] = ("dense", "experts", "shared")
NAMES = {
    "lm_head": "LM head",
    "lm": "LM head",
    "final_norm": "norm",
    "front_end": "convolutions",
    "source": "embedding",
    "tokens": "embedding",
    "positions": "learned positions",
    "position_embedding": "learned positions",
    "relative": "relative positions",
}
"""Labels of boxes whose row has another name."""
Marks = tuple[tuple[Hue, str], ...]


def strips_of(model: Model, rows: Sequence[WiredRow], kinds: Iterable[Kind]) -> tuple[Strip, ...]:
    """The strip of each stack."""
    by_path = {kind.path: kind for kind in kinds}
    stacks = list(stack_kinds(rows).items())
    last, ends = len(stacks) - 1, Ends(model, rows)
    boxes = [(ends.before(prefix), ends.after(prefix)) for prefix, _ in stacks]
    return tuple(
        Strip(
            title=(prefix.rstrip(".") or kind_of(model) or "layers").replace("_", " "),
            cells=tuple(cells_of(order, by_path)),
            runs=tuple(_run(number, place, period) for place, period in enumerate(periods(order))),
            n_layers=Figure(len(order), "show", "", f"stacks.{number}.n_layers"),
            before=tuple(boxes[number][0]),
            after=tuple(boxes[number][1]),
            beside=_apart(model) if number == last else (),
            rows=boxes[number],
            joins=model_joins(model, _sources(by_path, prefix), is_last=number == last),
        )
        for number, (prefix, order) in enumerate(stacks)
    )


def _sources(kinds: Mapping[str, Kind], prefix: str) -> dict[int, str]:
    """What the layers of a stack read from outside of it, by their numbers: `encoder`, `images`."""
    of_stack = [kind for path, kind in kinds.items() if path.startswith(f"{prefix}layers.")]
    nodes = [(kind, node) for kind in of_stack for node in kind.nodes if node.role == "input"]
    named = [(kind, node.label) for kind, node in nodes if node.label in SOURCES]
    return {number: label for kind, label in named for number in kind.layers}


def tower_strip(tower: Any, strip: Strip, readers: Sequence[int]) -> Strip:
    """The strip of a tower's encoder with its projector; `readers` are layers that read its vectors."""
    joins = tower_joins(tower, int(strip.n_layers.value), readers)
    idle = tuple(_named(tower.model, name) for name in joins.idle)
    return replace(strip, after=(*strip.after, PROJECTOR), joins=joins._replace(idle=idle))


def cells_of(order: Sequence[str], kinds: Mapping[str, Kind]) -> Iterator[Cell]:
    """A cell for each layer; of many layers one for each run of equal ones, or of equal colours."""
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


def _run(stack: int, place: int, period: Period) -> LayerRun:
    """A brace with its label: `58 ×`, `12 × (3 + 1)`, or `4 × 8 layers` of a period of many runs."""
    key = f"stacks.{stack}.runs.{place}"
    lengths = [Figure(length, "show", "", f"{key}.lengths.{i}") for i, length in enumerate(period.lengths)]
    if period.times == 1:
        return LayerRun(period.first, period.end, NumberedLine(lengths[0], " ×"), tuple(lengths))
    pieces: list[str | Figure] = [lengths[0]]
    for length in lengths[1:]:
        pieces += [" + ", length]
    times = Figure(period.times, "show", "", f"{key}.times")
    if len(lengths) > MOST_LENGTHS:
        whole = Figure(sum(period.lengths), "show", "", "+".join(length.key for length in lengths))
        label = NumberedLine(times, " × ", whole, " layers")
        return LayerRun(period.first, period.end, label, tuple(lengths), times)
    return LayerRun(
        period.first, period.end, NumberedLine(times, " × (", *pieces, ")"), tuple(lengths), times
    )


class Ends:
    """Rows outside of layers: before the first layer of a stack, and after its last."""

    def __init__(self, model: Model, rows: Sequence[WiredRow]) -> None:
        self.model, self.rows = model, rows
        self.by_id = {row.id: row for row in rows}
        self.prefixes = tuple(stack_kinds(rows))

    def before(self, prefix: str) -> dict[str, str]:
        """The boxes before the layers, each with the ids of its rows.

        Of rows from which the layers' residual stream is computed.
        """
        others = tuple(stem for stem in self.prefixes if stem and stem != prefix)
        first = [row for row in self._layers(prefix) if 0 in (row.layers or ())]
        waiting, visited = [source_row(read) for row in first for read in row.reads or ()], set[str]()
        while waiting:
            row = self.by_id.get(waiting.pop())
            if row is None or row.layers is not None or row.id in visited or row.path.startswith(others):
                continue
            visited.add(row.id)
            waiting += map(source_row, row.reads or ())
        return self._boxes(row for row in self.rows if row.id in visited)

    def after(self, prefix: str) -> dict[str, str]:
        """The boxes after the layers: rows that read the residual stream, or such rows."""
        seen = {row.id for row in self._layers(prefix)}
        behind = []
        for row in self.rows:
            if row.layers is None and any(source_row(read) in seen for read in row.reads or ()):
                seen.add(row.id)
                behind.append(row)
        return self._boxes(behind)

    def _layers(self, prefix: str) -> list[WiredRow]:
        inside = (row for row in self.rows if row.layers is not None)
        return [row for row in inside if row.path.startswith(f"{prefix}layers.")]

    def _boxes(self, rows: Iterable[WiredRow]) -> dict[str, str]:
        """A box for each module or operation with weights or a norm; many with one first word are one."""
        names = {row.id: _own_name(row) for row in rows if _is_shown(row)}
        begun = Counter(map(_beginning, dict.fromkeys(names.values())))
        boxes: dict[str, list[str]] = {}
        for row, name in names.items():
            short = _beginning(name) if begun[_beginning(name)] > SAME_BEGINNING else name
            boxes.setdefault(_named(self.model, short), []).append(row)
        return {label: ", ".join(ids) for label, ids in boxes.items()}


def _is_shown(row: WiredRow) -> bool:
    """Whether it has weights or a matrix, is a norm, or says what it is: sinusoids, a softcap."""
    traits, is_aside = row.op.traits(*row.inputs), role_of(row) == "aside"
    if is_aside and traits.marks:
        return False  # positions of attention, said in its panel
    said = bool(row.op.sign) if is_aside else traits.norm is not None or bool(traits.marks)
    return bool(row.weights) or said or role_of(row) == "matrix"


def _beginning(name: str) -> str:
    return name.partition("_")[0]


def _own_name(row: WiredRow) -> str:
    """The first step of a row's path below its stack; tables beside that of tokens are told apart."""
    prefix, dot, rest = row.path.partition(".")
    step = rest.partition(".")[0]
    if row.group == FROZEN:
        return "fixed positions"
    if marks := row.op.traits(*row.inputs).marks:
        return Statement(", ".join(marks))
    if role_of(row) == "aside" and row.op.sign:
        return row.op.sign
    if prefix == "front_end" and step != "positions":
        return prefix
    return step if dot and prefix in ("encoder", "decoder", "embedding", "front_end") else prefix


def _named(model: Model, name: str) -> str:
    if type(name) is Statement:
        return name
    if name == "lm_head" and model.embedding.tied:
        return "LM head, tied"
    if name == "front_end" and "image" in model.media:
        return "patches"
    phrase = name.replace("_", " ")
    return NAMES.get(name, PHRASES.get(phrase, phrase))


def _apart(model: Model) -> tuple[str, ...]:
    """Labels of boxes beside the layers: multi-token prediction, LoRA adapters."""
    named = {"MTP": bool(model.mtp_depth), "LoRA": model.lora is not None}
    return tuple(name for name, there in named.items() if there)
