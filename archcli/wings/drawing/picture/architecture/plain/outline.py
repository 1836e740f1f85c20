"""An architecture as text for a terminal: its layers, kinds of layer, parts and shares, line by line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from archcli.render.screen import cell_width
from archcli.wings.drawing.picture.architecture.numbers import written
from archcli.wings.drawing.picture.architecture.page.boxes import difference, drawn_whole
from archcli.wings.drawing.picture.architecture.page.foot import UNITS, is_single
from archcli.wings.drawing.picture.architecture.page.printed import number
from archcli.wings.drawing.picture.architecture.page.sheet import kinds_title
from archcli.wings.drawing.picture.architecture.page.strip import like_runs
from archcli.wings.drawing.picture.architecture.plain.lines import Line, Signs, bar, encoded

MIXER, NETWORK = 4, 8
"""Columns of the two bars of a run of layers: its token mixers, its feed-forward networks."""

if TYPE_CHECKING:
    from archcli.measure.survey.compare.differences import Difference
    from archcli.wings.drawing.drawn import Anatomy, Cell, DrawnNode, DrawnPart, Kind, Strip

NAMED, SHORTEST = 24, 14
"""The most columns of a name, in a wide and in a narrow terminal."""
MOST_SETTINGS = 16
"""The most settings shown in which models differ."""
NARROW = 60
"""Columns of a terminal below which shares in percent are left out."""
BEGINNINGS = ("{fork}", "{stream}  {fork}", "{stream} ")
"""How a chain of a layer's wiring begins: at the residual stream, at another chain, where chains meet."""
LONGEST_PERIOD, FEWEST_TIMES = 12, 3
"""The most runs in a repeated period, and the fewest repeats that are shown as one."""
MOST_RUNS, MOST_KINDS, MOST_NODES = 24, 12, 14
"""The most runs of a strip, kinds of layer, and bars of a part that are shown."""


def outline(
    anatomies: Sequence[Anatomy], differences: Sequence[Difference], width: int, signs: Signs
) -> list[Line]:
    """Models below each other on one scale, then their settings that differ."""
    scale = _scale(anatomies, width)
    lines = [line for anatomy in anatomies for line in [*_model(anatomy, scale, width, signs), []]]
    return encoded([*lines, *_differing(differences)] if differences else lines[:-1], width, signs)


class BarScale(NamedTuple):
    """Columns of names, of numbers (`digits`) and of bars (`room`); features of the longest bar."""

    names: int
    digits: int
    room: int
    widest: float


def _scale(anatomies: Sequence[Anatomy], width: int) -> BarScale:
    """One scale for the bars of all models."""
    nodes = [node for anatomy in anatomies for part in anatomy.parts for node in _barred(part)]
    most = min(NAMED, max(SHORTEST, width // 4))
    names = max((cell_width(_name(node)[:most]) for node in nodes), default=0)
    digits = max((len(_width_text(node)) for node in nodes), default=0)
    widest = max((float(node.width.value) for node in nodes if node.width), default=1.0)
    return BarScale(names, digits, max(4, width - names - digits - 5), widest)


def _barred(part: DrawnPart) -> list[DrawnNode]:
    """The nodes of a part that get a bar: its input and output, and those with a matrix or a token mix."""
    opened = (of for node in part.nodes for of in (*_widths_inside(node), node))
    nodes = [node for node in opened if node.width is not None and node.role not in {"unary", "join"}]
    return nodes if len(nodes) <= MOST_NODES else [*nodes[: MOST_NODES - 1], nodes[-1]]


def _widths_inside(node: DrawnNode) -> list[DrawnNode]:
    """The products of one expert before its last: d_ff of an expert."""
    products = [of for of in node.inner if of.role == "matrix"][:-1]
    return [replace(of, label=f"each {of.label}") for of in products]


def _name(node: DrawnNode) -> str:
    """The label of a bar."""
    return node.label or {"input": "in", "output": "out"}.get(node.role, node.role)


def _width_text(node: DrawnNode) -> str:
    """The features of a tensor as text; empty for one without."""
    return number(node.width, "whole").written if node.width else ""


def _differing(differences: Sequence[Difference]) -> Iterator[Line]:
    """Settings in which the models differ, a line for each."""
    yield [("What they state differently", "bold")]
    paths = max(len(it.path) for it in differences[:MOST_SETTINGS])
    for it in differences[:MOST_SETTINGS]:
        yield [(f"  {it.path:{paths}}  ", "dim"), ("  ".join(value or "-" for value in it.values), "")]
    if len(differences) > MOST_SETTINGS:
        yield [(f"  and {len(differences) - MOST_SETTINGS} more, which archcli compare lists", "dim")]


def _model(anatomy: Anatomy, scale: BarScale, width: int, signs: Signs) -> Iterator[Line]:
    """One model: headline, layers, kinds of layer, parts, and shares of the components."""
    yield [(anatomy.name, "bold")]
    for head in filter(None, (anatomy.subtitle, anatomy.settings)):
        yield from ([(line, "dim")] for line in _folded(head.split(" · "), " · ", width))
    keys = [
        f"{number(figure, form).written} {caption.removeprefix('FLOP ')}"
        for figure, caption, form in anatomy.headline
    ]
    yield from ([(line, "")] for line in _folded(keys, "  ", width))
    for strip in reversed(anatomy.strips):
        yield []
        yield [(strip.title.capitalize() if len(anatomy.strips) > 1 else "Layers", "bold")]
        # those of a tower stand below its name
        yield from ([(f"  {note}", "dim")] for note in strip.joins.notes if not anatomy.part)
        yield from _strip(strip, signs)
    if anatomy.kinds:
        yield from ([], [(kinds_title(len(anatomy.kinds)), "bold")])
        for kind, first in drawn_whole(anatomy.kinds[:MOST_KINDS]):
            if first is kind:
                yield from _kind(kind, width, signs)
            else:
                yield _title(kind)
                lines = _folded(difference(kind, first).split(", "), ", ", width - 2)
                yield from ([(f"  {line}", "dim")] for line in lines)
        if len(anatomy.kinds) > MOST_KINDS:
            yield [(f"{signs.more} and {len(anatomy.kinds) - MOST_KINDS} more kinds", "dim")]
    for part in anatomy.parts[:MOST_KINDS]:
        yield []
        yield from _part(part, scale, width, signs)
    if anatomy.shares or anatomy.foot:
        yield []
        yield from _shares(anatomy, width, signs)


def _folded(pieces: Sequence[str], between: str, width: int) -> list[str]:
    """Pieces joined by `between`, in lines of at most `width` columns."""
    lines = [""]
    for piece in pieces:
        longer = f"{lines[-1]}{between}{piece}" if lines[-1] else piece
        if lines[-1] and cell_width(longer) > width:
            lines.append(piece)
        else:
            lines[-1] = longer
    return lines


def _strip(strip: Strip, signs: Signs) -> Iterator[Line]:
    """The runs of alike layers, the last on top, between the steps after and before all layers."""
    # of many runs the first and last 12 are shown
    lines = [*_run_lines(like_runs(strip.cells), signs)]
    room = max((len(name) for name, _ in lines), default=0)
    ends = [f"{label}{', which feeds nothing' * (label in strip.joins.idle)}" for label in strip.after]
    yield from ([(f"{'':{room}}  {label}", "dim")] for label in reversed(ends))
    more = len(lines) - MOST_RUNS
    shown = (
        [*lines[: MOST_RUNS // 2], ("", [(f"{signs.more} and {more} more runs", "dim")])]
        if more > 0
        else lines
    )
    shown += lines[len(lines) - MOST_RUNS // 2 :] if more > 0 else []
    yield from ([(f"{name:>{room}}  ", "dim"), *line] for name, line in reversed(shown))
    yield from ([(f"{'':{room}}  {label}", "dim")] for label in reversed(strip.before))
    yield from ([(f"{'':{room}}  beside: {label}", "dim")] for label in strip.beside)


def _run_lines(runs: Sequence[tuple[Cell, int]], signs: Signs) -> Iterator[tuple[str, Line]]:
    """A line for each run of alike layers, from the first; a period that repeats is shown once."""
    start, period, times = _repeated(runs)
    for i, (cell, count) in enumerate(runs):
        if start + period <= i < start + period * times:
            continue
        line: Line = []
        for parts, columns in ((cell.mixers, MIXER), (cell.networks, NETWORK)):
            for hue, letter in parts:
                line += [(signs.full * max(1, columns // len(parts)), hue), (f" {letter} ", "bold")]
        yield _layers(cell.first, cell.first + count), [*line, (f" {count} ×" if count > 1 else "", "")]
        if times > 1 and i == start + period - 1:
            last, layers = runs[start + period * times - 1]
            text = f"these {times} times, to layer {last.first + layers - 1}"
            yield "", [(text, "dim")]


def _repeated(runs: Sequence[tuple[Cell, int]]) -> tuple[int, int, int]:
    """(start, runs, times) of a repeated period: (1, 2, 3) of A BC BC BC; zeros below 3 times."""
    # at each of the first three starts, so that up to two other runs may stand before the period
    keys = [(cell.mixers, cell.networks, count) for cell, count in runs]
    best, most = (0, 0, 0), 0
    for start in range(min(3, len(keys))):
        for period in range(1, min(LONGEST_PERIOD, len(keys) // 3) + 1):
            times = 1
            runs_of_period = keys[start : start + period]
            while keys[start + period * times : start + period * (times + 1)] == runs_of_period:
                times += 1
            if times >= FEWEST_TIMES and period * times > most:
                best, most = (start, period, times), period * times
    return best


def _layers(first: int, end: int) -> str:
    return str(first) if end == first + 1 else f"{first}–{end - 1}"


def _kind(kind: Kind, width: int, signs: Signs) -> Iterator[Line]:
    """A kind of layer: its residual stream downwards, with a line for each branch."""
    yield _title(kind)
    nodes = {node.id: node for node in kind.nodes}
    seen = set(kind.spine)
    for name in kind.spine:
        node = nodes[name]
        known = seen - {*kind.spine}
        branch = [of for read in node.reads for of in _branch(read, nodes, seen)]
        chains = _chains([of for of in branch if of.role != "input"])
        for place, chain in chains:
            pieces = _chain(chain, BEGINNINGS[place], nodes, known, signs)
            begin = BEGINNINGS[place].format(stream=signs.stream, fork=signs.fork)
            yield from _broken(begin, pieces, width, signs.stream)
        if node.role == "join":
            yield [(f"  {signs.join}{signs.back if chains else ''}", "bold")]
        elif node.role not in {"input", "output"}:
            yield [(f"  {signs.stream} ", "bold"), *_label(node)]


def _title(kind: Kind) -> Line:
    return [(f"{number(kind.times, 'whole').written} × ", "bold"), (kind.title, "bold")]


def _branch(end: str, nodes: dict[str, DrawnNode], seen: set[str]) -> list[DrawnNode]:
    """The nodes from the residual stream to `end`, in the order in which they run."""
    if end in seen:
        return []
    seen.add(end)
    node = nodes[end]
    return [*(before for read in node.reads for before in _branch(read, nodes, seen)), node]


def _chains(branch: Sequence[DrawnNode]) -> list[tuple[int, list[DrawnNode]]]:
    """A branch as chains of nodes, each with how many chains it reads: 0 the stream, 2 where chains meet."""
    inside = {node.id for node in branch}
    readers = [read for node in branch for read in node.reads]
    chains: dict[str, tuple[int, list[DrawnNode]]] = {}
    for node in branch:
        reads = [read for read in node.reads if read in inside]
        # a chain goes on behind its last node where nothing else reads that
        if len(reads) == 1 and reads[0] in chains and readers.count(reads[0]) == 1:
            chains[node.id] = chains.pop(reads[0])
            chains[node.id][1].append(node)
        else:
            chains[f"{node.id}@" if readers.count(node.id) > 1 else node.id] = min(len(reads), 2), [node]
    return list(chains.values())


def _chain(
    chain: Sequence[DrawnNode], begin: str, nodes: dict[str, DrawnNode], known: set[str], signs: Signs
) -> Iterator[tuple[Line, Line]]:
    """(sign before it, text) of each piece of a chain; `known`: nodes in a line above."""
    read_above = [nodes[read] for read in chain[0].reads if read in known and nodes[read].role != "input"]
    yield from (([], [(f"same {node.label}", "dim")]) for node in read_above)
    link: Line = [(signs.link, "dim")]
    for i, node in enumerate(chain):
        meets = begin == BEGINNINGS[2] and node.role == "join" and not i
        label: Line = [(f"{signs.join}{signs.back}", "bold")] if meets else _label(node)
        yield link if i or read_above else [], label
        further = [nodes[read].label for read in node.reads if nodes[read].role == "input"]
        if any(further):
            yield [(" ", "")], [(f"with {', '.join(filter(None, further))}", "dim")]


def _broken(begin: str, pieces: Iterator[tuple[Line, Line]], width: int, stream: str) -> Iterator[Line]:
    """Pieces in one line, or in several that are indented."""
    line: Line = [(f"  {begin} ", "bold")]
    for between, label in pieces:
        longer = [*line, *between, *label]
        if between and sum(cell_width(text) for text, _ in longer) > width:
            yield line
            longer = [(f"  {stream}{' ' * (len(begin) - 1)} ", "bold"), *label]
        line = longer
    yield line


def _label(node: DrawnNode) -> Line:
    return [(f"{node.letter} ", "bold"), (node.label, node.hue)] if node.letter else [(node.label, "")]


def _part(part: DrawnPart, scale: BarScale, width: int, signs: Signs) -> Iterator[Line]:
    """A mixer or a network: a bar for the width of each tensor."""
    params = f"{number(part.params).written} parameters"
    title: Line = [(f"{part.letter} {part.title}  ", part.hue if part.hue != "plain" else "bold")]
    fits = cell_width(title[0][0] + params) <= width
    yield from ([[*title, (params, "dim")]] if fits else [title, [(f"  {params}", "dim")]])
    for fact in part.lines:
        yield from ([(f"  {line}", "dim")] for line in _folded(fact.split(", "), ", ", width - 2))
    for node in _barred(part):
        name = _name(node)[: scale.names]
        share = float(node.width.value) / scale.widest if node.width else 0.0
        hue = "plain" if node.role in {"input", "output"} else node.hue if node.hue != "plain" else part.hue
        padded = name + " " * (scale.names - cell_width(name))
        yield [(f"  {padded} {_width_text(node):>{scale.digits}} ", ""), (bar(share, scale.room, signs), hue)]


def _shares(anatomy: Anatomy, width: int, signs: Signs) -> Iterator[Line]:
    """Two bars for each component: stored, and read for one token; one bar where both are equal."""
    unit, single = UNITS[anatomy.shown], is_single(anatomy)
    whole = sum(share.stored.value for share in anatomy.shares)
    part = sum(share.read.value for share in anatomy.shares)
    yield [(anatomy.bars, "bold")]
    yield from ([(row, "dim")] for line in anatomy.foot for row in _folded(line.split(" "), " ", width))
    if not anatomy.shares:
        return
    if not single:
        yield [(f"{written(part, unit)} ({written(part / whole, 'share')}) read for a token", "dim")]
    is_narrow = width < NARROW
    names = ["" if is_narrow else share.name[:NAMED] for share in anatomy.shares]
    wide = max(map(cell_width, names))
    for share, name in zip(anatomy.shares, names, strict=True):
        padded = name + " " * (wide - cell_width(name))
        if is_narrow:
            yield [(f"  {share.name}", "")]
        rows = (
            [("", share.stored, whole)]
            if single
            else [("stored", share.stored, whole), ("read", share.read, part)]
        )
        for i, (what, figure, of) in enumerate(rows):
            label = padded if i == 0 else " " * wide
            amount = number(figure, unit).written
            word = f"{what:<6} " if what else ""
            of_whole = "" if is_narrow else f"{written(figure.value / of, 'share'):>6} "
            begin = f"  {label} {word}{amount:>9} {of_whole}"
            drawn = bar(figure.value / whole, max(4, width - cell_width(begin)), signs)
            yield [(begin, ""), (drawn, share.hue)]
