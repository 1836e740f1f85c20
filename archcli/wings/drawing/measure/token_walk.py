"""The way of one token: the passes that it needs, and what a layer of each kind does in them.

All is read off the rows of these passes: of the towers, of an encoder, and of the token itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import groupby
from typing import Any, NamedTuple

from archcli.arith import Number, Shape, rounded
from archcli.graph import OpClass, Row, State, StateKind
from archcli.measure.kvcache.cache_size import CacheDtypes
from archcli.measure.notes import medium_in_words, medium_record
from archcli.measure.passes import checked_pass, medium_rows
from archcli.measure.survey.show import CACHE_DTYPE
from archcli.modules import Model
from archcli.modules.models.layers import LayerIndex
from archcli.modules.spec.request import Request
from archcli.wings.drawing.drawn import Anatomy, Kind

TOKENS = 2048
"""Tokens of text that the model has in its cache with the one that is followed, if it can have so many."""
OPTIONS = {"frames": "--audio-frames", "samples": "--audio-samples", "seconds": "--audio-seconds"}
"""The option of the command line for a sound of each kind; an image and a video are called like theirs."""


OF_STREAM = 3
"""Axes of the stream: batch, tokens, features."""


class WalkStep(NamedTuple):
    """A step: what runs before or after the layers, a layer, or a part of it.

    amounts: parameters read, FLOPs of matrix products, bytes of the cache written and read, of one layer.
    kind: the path of the drawn layer; of what runs before or after a stack that of its first layer.
    end: `before` or `after`; empty within the layers. letter: of the part; empty for the whole layer.
    times: layers that it stands for. entered, left: shapes. experts: (chosen, all) of a mixture.
    """

    title: str
    amounts: tuple[Number, ...]
    kind: str = ""
    end: str = ""
    letter: str = ""
    times: int = 1
    entered: Shape = ()
    left: Shape = ()
    experts: tuple[Number, Number] | None = None


class WalkStage(NamedTuple):
    """The steps of a pass; the last is all of it.

    column: of the drawing: 0 for the model itself, then its towers.
    commands: print the sums of the steps; {} stands for the model.
    """

    title: str
    column: int
    steps: tuple[WalkStep, ...]
    commands: tuple[str, ...]


def stages_of(model: Model, anatomy: Anatomy) -> Iterator[WalkStage]:
    """The passes that one token needs: of the towers, of the source, and its own."""
    media = tuple(tower.usual for tower in model.towers)
    options = "".join(
        f" {OPTIONS.get(it.kind, f'--{it.kind}')} {'x'.join(map(str, it.size))}" for it in media
    )
    towers: Any = model.towers  # each has a stack of layers; patches alone (Fuyu) are not drawn
    layered = [tower for tower in towers if tower.model.groups]
    for column, (tower, drawn) in enumerate(zip(layered, anatomy.towers, strict=True), 1):
        yield _of_tower(tower, drawn, column, options)
    text = min(TOKENS, max((model.max_seq_len or TOKENS) - model.media_tokens(media), 2))
    index = LayerIndex(model)
    if not model.caches:
        counted = checked_pass(model, Request("forward", 1, text))
        steps = tuple(steps_of(anatomy, index, counted.rows, "forward"))
        flops = f"flops {{}}{'' if model.media else f' -s {text}'}"
        yield WalkStage(f"A pass over {counted.new:,} tokens", 0, steps, (flops, "params {}"))
        return
    counted = checked_pass(model, Request("decode", 1, 1, text - 1, media=media))
    kept, length = list[Row](), ""
    if counted.source_len is not None:
        length = "" if media else f" --source-len {counted.source_len}"
        # a pass reads the keys and values of a source, and its own rows lack them
        filling = checked_pass(model.with_media(media), counted.request.filling()).rows
        keeping = [row for row in filling if any(state.kind is StateKind.SOURCE for state in row.states)]
        kept = [replace(row, parts=(), weights={}, inputs=(), outputs=()) for row in keeping]
        source = tuple(steps_of(anatomy, index, _once(filling, counted.rows), "prefill"))
        title = f"The source, {counted.source_len:,} positions, once"
        yield WalkStage(title, 0, source, (f"show {{}} -s {text - 1}{options}",))
    steps = tuple(steps_of(anatomy, index, [*counted.rows, *kept], "decode"))
    flops, cache = f"flops {{}} --phase decode --past {text - 1}", f"kvcache {{}} --context {text}{length}"
    # of a model with a source `params` has the parameters of both stages
    commands = (f"{flops}{options}", f"{cache}{options}", *([] if kept else ["params {}"]))
    yield WalkStage(f"One token, after {counted.past:,} others", 0, steps, commands)


def _of_tower(tower: Any, drawn: Anatomy, column: int, options: str) -> WalkStage:
    """The pass of a tower over a medium of the usual size: an image 448x448, 256 tokens."""
    prefix, encoder = tower.encoders[0]
    rows = medium_rows(tower, tower.usual, Request())
    inside = [replace(row, path=row.path.removeprefix(prefix)) for row in rows]
    steps = tuple(steps_of(drawn, LayerIndex(encoder), inside, "forward"))
    tokens = tower.tokens_of(tower.usual)
    title = f"{medium_in_words(medium_record(tower.usual, tokens)).capitalize()}, {tokens:,} tokens"
    return WalkStage(title, column, steps, (f"flops {{}}{options}", "params {}"))


def _once(filling: Sequence[Row], decoding: Sequence[Row]) -> list[Row]:
    """The rows of a prefill that do not run for each new token: those of the source, which run first."""
    left = Counter(row.path for row in filling)
    left.subtract(row.path for row in decoding)
    once: list[Row] = []
    for row in filling:
        left[row.path] -= 1
        once += [row] if left[row.path] >= 0 else []
    return once


def amounts_of(rows: Iterable[Row], phase: str, layers: int = 1) -> tuple[Number, ...]:
    """The amounts of rows: of all that they stand for, or in one of so many layers."""
    every = [[row.times * amount for amount in _amounts(row, phase)] for row in rows]
    return tuple(rounded(Fraction(sum(of_rows)) / layers) for of_rows in zip(*every, strict=True))


def _amounts(row: Row, phase: str) -> Iterator[Number]:
    yield row.unit_params * (row.experts.top_k if row.experts else 1)
    yield sum(of.flops for _, _, of in row.pieces(phase) if of.op_class is OpClass.CONTRACTION)
    decodes = phase == "decode"
    yield sum(_bytes(state, _written(state, decodes=decodes)) for state in row.states)
    yield sum(_bytes(state, state.elements) for state in row.states if decodes)


def _written(state: State, *, decodes: bool) -> Number:
    """Elements that a pass writes: of one token an entry, or a state that does not grow; a source once."""
    if state.kind is StateKind.SOURCE:
        return 0 if decodes else state.elements
    return state.elements if state.tokens is None else state.per_token()


def _bytes(state: State, elements: Number) -> Number:
    return CacheDtypes(CACHE_DTYPE).bytes_of({state.holds: elements})


def steps_of(anatomy: Anatomy, index: LayerIndex, rows: Sequence[Row], phase: str) -> Iterator[WalkStep]:
    """What runs before the layers, a layer of each kind with its parts, what runs after them, and all."""
    layers, places = index.by_layer(rows), {id(row): place for place, row in enumerate(rows)}
    outside = layers.pop("", [])
    kinds = [kind for kind in anatomy.kinds if kind.path in layers]
    for _, of_stack in groupby(kinds, lambda kind: _stack(kind.path)):
        stack = [*of_stack]
        first = places[id(layers[stack[0].path][0])]
        before = [row for row in outside if places[id(row)] < first]
        after = [row for row in outside if places[id(row)] > first]
        inner = [step for kind in stack for step in _of_kind(anatomy, index, layers, kind, phase)]
        ends = inner[0].entered, inner[-1].left
        if before:
            yield _at_end(anatomy, stack[0], "before", before, phase)._replace(left=ends[0])
        yield from inner
        if after:
            yield _at_end(anatomy, stack[0], "after", after, phase)._replace(entered=ends[1])
        outside = []  # of a source's second stack nothing else runs
    # weights that layers share are read in each of them, and counted once in all
    once = sum(row.active_params for row in rows)
    yield WalkStep("In all", (once, *amounts_of(rows, phase)[1:]))


def _of_kind(
    anatomy: Anatomy, index: LayerIndex, layers: dict[str, list[Row]], kind: Kind, phase: str
) -> Iterator[WalkStep]:
    """A layer of a kind, then its parts in the order in which they run."""
    spans = [index.span(path) for path in layers if _stack(path) == _stack(kind.path)]
    times = sum(len(span) for span in spans if span.start in kind.layers)
    rows, parts = layers[kind.path], {part.letter: part for part in anatomy.parts}
    for path, letter in [(kind.path, ""), *((node.id, node.letter) for node in kind.nodes if node.letter)]:
        inside = [row for row in rows if row.path.startswith(f"{path}.")]
        if inside:
            title = parts[letter].title if letter else str(kind.title)
            amounts = amounts_of(inside, phase, len(index.span(kind.path)))
            nodes = parts[letter].nodes if letter else ()
            choices = [(it.choice.chosen.value, it.choice.count.value) for it in nodes if it.choice]
            yield WalkStep(title, amounts, kind.path, "", letter, times, *_ends(inside), *choices[:1])


def _at_end(anatomy: Anatomy, kind: Kind, end: str, rows: Sequence[Row], phase: str) -> WalkStep:
    """What runs before or after the stack that a kind of layer is in; its boxes give the title."""
    strip = next(it for it in anatomy.strips if any(cell.kind == kind.path for cell in it.cells))
    names = ", ".join(map(str, strip.before if end == "before" else strip.after)) or f"{end} the layers"
    shapes = rows[0].inputs[0], rows[-1].outputs[0]
    title = names[:1].upper() + names[1:]
    return WalkStep(title, amounts_of(rows, phase), strip.cells[0].kind, end, "", 1, *shapes)


def _stack(path: str) -> str:
    """The stack of a layer: decoder.layers of decoder.layers.3."""
    return path.rpartition(".")[0]


def _ends(rows: Iterable[Row]) -> tuple[Shape, Shape]:
    """The shapes of what rows read first and give last."""
    # a rotary table that is made first reads positions alone; a source that is kept has no shapes
    run = [row for row in rows if row.inputs and row.outputs]
    return next(row.inputs[0] for row in run if len(row.inputs[0]) >= OF_STREAM), run[-1].outputs[0]
