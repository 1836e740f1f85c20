"""Stages of a token's way: the passes of the towers, of an encoder, and of the token itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from archcli.graph import Row
from archcli.measure.notes import medium_in_words, medium_record
from archcli.measure.passes import Pass, checked_pass, medium_rows
from archcli.modules import Model
from archcli.modules.models.layers import LayerIndex
from archcli.modules.spec.request import Medium, Request
from archcli.wings.drawing.drawn import Anatomy
from archcli.wings.drawing.measure.walk.steps import LayerSteps, StepAmounts, WalkStep

TOKENS = 2048
"""Tokens of text that the model has in its cache with the one that is followed, if it can have so many."""
OPTIONS = {
    "image": "--image",
    "video": "--video",
    "frames": "--audio-frames",
    "samples": "--audio-samples",
    "seconds": "--audio-seconds",
}
"""The option of the command line for a medium of each kind."""


class WalkStage(NamedTuple):
    """The steps of a pass.

    title: what the pass is. column: of the drawing, 0 for the model itself, then its towers.
    commands: print the sums of the steps; {} stands for the model.
    total: of all steps, each as often as its layers.
    """

    title: str
    column: int
    steps: tuple[WalkStep, ...]
    total: StepAmounts
    commands: tuple[str, ...]


def stages_of(model: Model, anatomy: Anatomy) -> Iterator[WalkStage]:
    """The passes that one token needs: of the towers, of the source, and its own."""
    media = tuple(tower.usual for tower in model.towers)
    options = "".join(f" {OPTIONS[it.kind]} {'x'.join(map(str, it.size))}" for it in media)
    towers: Any = model.towers  # each has a stack of layers; patches alone (Fuyu) are not drawn
    layered = [tower for tower in towers if tower.model.groups]
    for column, (tower, drawn) in enumerate(zip(layered, anatomy.towers, strict=True), 1):
        yield _of_tower(tower, drawn, column, options)
    text = min(TOKENS, max((model.max_seq_len or TOKENS) - model.media_tokens(media), 2))
    if not model.caches:
        yield _of_forward(model, anatomy, text)
        return
    counted = checked_pass(model, Request("decode", 1, 1, text - 1, media=media))
    filling = _source_rows(model.with_media(media), counted)
    if filling:
        steps = LayerSteps(anatomy, LayerIndex(model), _once(filling, counted.rows), "prefill")
        title = f"The source, {counted.source_len:,} positions, once"
        yield _stage(title, 0, steps, f"show {{}} -s {text - 1}{options}")
    steps = LayerSteps(anatomy, LayerIndex(model), counted.rows, "decode", filling)
    title = f"One token, after {counted.past:,} others"
    flops, cache = f"flops {{}} --phase decode --past {text - 1}", f"kvcache {{}} --context {text}"
    yield _stage(title, 0, steps, f"{flops}{options}", f"{cache}{options}", "params {}")


def _of_tower(tower: Any, drawn: Anatomy, column: int, options: str) -> WalkStage:
    """The pass of a tower over a medium of the usual size."""
    prefix, encoder = tower.encoders[0]
    rows = medium_rows(tower, tower.usual, Request())
    named = [replace(row, path=row.path.removeprefix(prefix)) for row in rows]
    steps = LayerSteps(drawn, LayerIndex(encoder), named, "forward")
    return _stage(_medium(tower, tower.usual), column, steps, f"flops {{}}{options}", "params {}")


def _medium(tower: Any, medium: Medium) -> str:
    """An image 448x448, 256 tokens."""
    tokens = tower.tokens_of(medium)
    return f"{medium_in_words(medium_record(medium, tokens)).capitalize()}, {tokens:,} tokens"


def _of_forward(model: Model, anatomy: Anatomy, tokens: int) -> WalkStage:
    """The pass of a model that generates nothing, over all tokens or a medium at once."""
    counted = checked_pass(model, Request("forward", 1, tokens))
    steps = LayerSteps(anatomy, LayerIndex(model), counted.rows, "forward")
    length = "" if model.media else f" -s {tokens}"
    return _stage(f"A pass over {counted.new:,} tokens", 0, steps, f"flops {{}}{length}", "params {}")


def _source_rows(model: Model, counted: Pass) -> Sequence[Row]:
    """The rows of the prefill that reads the source of an encoder-decoder; none of another model."""
    if counted.source_len is None:
        return ()
    return checked_pass(model, counted.request.filling()).rows


def _once(filling: Sequence[Row], decoding: Sequence[Row]) -> list[Row]:
    """The rows of a prefill that do not run for each new token: those of the source."""
    left = Counter(row.path for row in filling)
    left.subtract(Counter(row.path for row in decoding))
    once = list[Row]()
    for row in filling:
        if left[row.path] > 0:
            left[row.path] -= 1
            once.append(row)
    return once


def _stage(title: str, column: int, steps: LayerSteps, *commands: str) -> WalkStage:
    return WalkStage(title, column, tuple(steps.steps()), steps.total(), commands)
