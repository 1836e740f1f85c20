"""Encoder of images or sounds: returns hidden states, one pooled vector, or logits of classes.

B batch, T tokens of the image or sound, D d_model.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar, Literal

from archcli.arith import Number, Shape, is_whole
from archcli.graph import Row, Tensor
from archcli.modules.models.model import Model
from archcli.modules.models.stack import AXES, UNREAD, Cached, Group, Stack
from archcli.modules.spec.base import Conflict, Count, Size
from archcli.modules.spec.context import Context
from archcli.modules.spec.request import InputSpec, Medium, Request
from archcli.ops import (
    Add,
    FlattenPlaces,
    KeepToken,
    Linear,
    PoolBlocks,
    Positions,
    Scale,
)
from archcli.wings.media.modules.ends.patches import FrontEnd
from archcli.wings.media.modules.ends.pooling import Pooling
from archcli.wings.media.modules.models.tower import TowerModel

PROJECTOR = "projector"
"""Group and part of the layers between a tower and its reader."""


class Taps:
    """The hidden states [B, T, D] after some layers: transformers' `output_hidden_states`.

    Entry 0 is the input of the first layer. A count visits layer 0 of 24 like layers, then layer 24: the
    states after layer 0 stand for those after layers 1 to 23. With `alone` nothing but these states is read,
    so that the layers after the last of them are unread.
    """

    def __init__(self, x: Tensor, wanted: tuple[int, ...], *, alone: bool = False) -> None:
        self._wanted, self._alone = wanted, alone
        self._taken: dict[int, Tensor] = {}
        # the states behind the last layer, until it is known which layer is next
        self._last: tuple[Number, Tensor] = (0, x)

    def passed(self, layer: Number, x: Tensor, times: Number = 1, period: int = 1) -> Tensor:
        """Return the states after a layer, and keep the ones before it that are wanted."""
        self._take(layer + 1)
        self._last = (layer + 1, x)
        return x

    def is_unread(self, layer: Number) -> bool:
        """Whether nothing reads this layer."""
        return self._alone and is_whole(layer) and layer >= max(self._wanted)

    def behind(self, layers: int) -> Tensor:
        """The states after `layers` layers."""
        self._take(None)
        return self._taken[layers]

    def _take(self, until: Number | None) -> None:
        """Keep the last states for each wanted number of layers from theirs on, below `until`."""
        number, x = self._last
        for layers in self._wanted:
            if layers in self._taken or not (is_whole(number) and number <= layers):
                continue
            if until is None or not is_whole(until) or layers < until:
                self._taken[layers] = x


class MediaEncoder(Model, Stack, TowerModel):
    """An encoder of images or sounds: pixels or a spectrogram to hidden states [B, T, D].

    Differs from Encoder in its `front_end` in place of a table of tokens. Nothing is cached or generated.
    Layers state `causal: false`, unless the front end is causal. Without layers the language model reads the
    output of the front end (Fuyu).

    `vocab_size` is 0.
    `pooling` makes one vector of the hidden states.
    `projection` is the width of the space shared with texts, after a matrix (CLIP, arXiv:2103.00020).
    `n_labels` is the number of classes of a linear classifier, of the pooled vector or of every token.
    With `teacher` a second classifier reads the second token; both are averaged (DeiT, arXiv:2012.12877
    section 4).
    Each `averaged` vectors in a row become their mean before the final norm (Qwen2-Audio, arXiv:2407.10759).
    """

    caches: ClassVar[bool] = False
    kind: Literal["media_encoder"] = "media_encoder"
    vocab_size: Count = 0
    front_end: FrontEnd
    groups: tuple[Group, ...]
    pooling: Pooling | None = None
    projection: Size | None = None
    n_labels: Size | None = None
    teacher: bool = False
    averaged: Size | None = None

    @property
    def is_causal(self) -> bool:
        """Whether its layers see only earlier vectors."""
        return self.front_end.causal

    @property
    def media(self) -> tuple[str, ...]:
        """The kinds of media that it reads."""
        return self.front_end.media

    def part_of(self, row: Row) -> str:
        """The part of a row: vision_tower, audio_tower, or projector."""
        return row.group if row.group == PROJECTOR else self.front_end.part

    def fitted(self, request: Request) -> Request:
        """The request with the medium that is encoded, and its number of tokens as length."""
        medium = self.front_end.medium(request)
        return replace(request, seq_len=self.front_end.tokens(medium), media=(medium,))

    def tokens_of(self, medium: Medium) -> int:
        """Hidden states of a medium, T."""
        medium = self.front_end.medium(Request(media=(medium,)))
        shape = self.front_end.input(1, medium).shape
        grid, left = self.front_end.grid_read(shape), self.grid_made(shape)
        if self.front_end.places_of(medium) is None:
            # layers may merge patches of a sequence: `merged` counts the vectors that are gone
            merged = 0 if grid is None else grid[0] * grid[1] - left[0] * left[1]
            return (self.front_end.tokens(medium) - merged) // (self.averaged or 1)
        h, w = left
        tokens: int = h * w
        return tokens

    def grid_made(self, shape: Shape) -> Any:
        """Rows and columns of the hidden states, for an input of a shape; None for a sequence."""
        grid = self.front_end.grid_read(shape)
        if grid is not None:
            for _, block in self.layers():
                grid = block.places_after(grid)
        return grid

    def inputs(self, request: Request) -> dict[str, InputSpec]:
        """The image or sound of the request as `tokens`, [B, C, H, W] or [B, frames, bins]."""
        return {"tokens": self.front_end.input(request.batch_size, self.front_end.medium(request))}

    def forward(
        self,
        tokens: Tensor,
        wanted: Literal["answer", "hidden", "states"] = "answer",
        behind: tuple[int, ...] = (),
        *,
        positions: Tensor | None = None,
        past: Number = 0,
        cache: Cached = None,
        last_only: bool = False,
    ) -> tuple[Tensor, Cached]:
        """(logits or hidden states, states of layers); the second is None for an `answer`.

        answer: logits [B, 1, n] or [B, T, n] with `n_labels`, else the pooled vector or hidden states.
        hidden: hidden states [B, T, D], and the states after the layers of `behind`, before the final norm; a
        pooling still runs, as in transformers' classes of towers.
        states: as hidden, but nothing reads the hidden states.
        """
        x = self.front_end(tokens, self.d_model, name="front_end")
        self.hold(x)
        positions = Positions("positions")(x) if positions is None else positions
        grid = self.front_end.grid_read(tokens.shape)
        context = Context(positions, past, places=self.front_end.places(tokens, x), grid=grid)
        alone = wanted == "states"
        taps = Taps(x, behind, alone=alone) if behind else None
        x, _ = self.run(x, context._replace(between=taps))
        # layers that work on a grid [B, H, W, D] leave one
        x = FlattenPlaces("flatten")(x) if len(x.shape) > AXES else x
        if self.averaged is not None:
            x = PoolBlocks("average", (x.shape[1], 1), (self.averaged, 1))(x)
        x = self.apply_final_norm(x, UNREAD if alone else None)
        unread = None if wanted == "answer" else UNREAD
        y = x if self.pooling is None else self.pooling(x, name="pooling", no_grad=unread)
        if wanted != "answer":
            return x, None if taps is None else tuple(taps.behind(layers) for layers in behind)
        if self.projection is not None:
            y = Linear("projection", self.projection)(y, group=PROJECTOR)
        if self.n_labels is None:
            return y, None
        labels = Linear("classifier", self.n_labels, True)(y, group="classifier")
        if self.teacher:
            labels = self._with_second(KeepToken("second", 1)(x), labels, self.n_labels)
        return labels, None

    def _with_second(self, second_token: Tensor, labels: Tensor, n_labels: Number) -> Tensor:
        """The mean of the logits of two classifiers."""
        taught = Linear("teacher_classifier", n_labels, True)(second_token, group="classifier")
        mean: Tensor = Scale("mean_scale", 0.5)(Add("mean_add")(labels, taught))
        return mean

    def check(self) -> Iterator[Conflict]:
        """Conflict: a second classifier without a first."""
        yield from super().check()
        if self.teacher and (self.n_labels is None or self.pooling is None):
            what = "teacher adds a second classifier to that of the first token"
            yield Conflict(
                "teacher-labels", "teacher", what, "add n_labels and pooling: first, or leave it out"
            )
