"""Stages of a token's way: the passes of the towers, of an encoder, and of the token itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from archcli.graph import Row, StateKind
from archcli.measure.notes import medium_in_words, medium_record
from archcli.measure.passes import checked_pass, medium_rows
from archcli.modules import Model
from archcli.modules.models.layers import LayerIndex
from archcli.modules.spec.request import Request
from archcli.wings.drawing.drawn import Anatomy
from archcli.wings.drawing.measure.walk.steps import WalkStep, steps_of

TOKENS = 2048
"""Tokens of text that the model has in its cache with the one that is followed, if it can have so many."""
OPTIONS = {"frames": "--audio-frames", "samples": "--audio-samples", "seconds": "--audio-seconds"}
"""The option of the command line for a sound of each kind; an image and a video are called like theirs."""


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
    kept: list[Row] = []
    if counted.source_len is not None:
        # a pass reads the keys and values of a source, and its own rows lack them
        filling = checked_pass(model.with_media(media), counted.request.filling()).rows
        keeping = [row for row in filling if any(state.kind is StateKind.SOURCE for state in row.states)]
        kept = [replace(row, parts=(), weights={}, inputs=(), outputs=()) for row in keeping]
        source = tuple(steps_of(anatomy, index, _once(filling, counted.rows), "prefill"))
        title = f"The source, {counted.source_len:,} positions, once"
        yield WalkStage(title, 0, source, (f"show {{}} -s {text - 1}{options}",))
    steps = tuple(steps_of(anatomy, index, [*counted.rows, *kept], "decode"))
    flops, cache = f"flops {{}} --phase decode --past {text - 1}", f"kvcache {{}} --context {text}"
    commands = (f"{flops}{options}", f"{cache}{options}", "params {}")
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
