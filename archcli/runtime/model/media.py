"""Images and sounds that a built model is given, checked against its towers and the prompt.

B batch, T tokens of the prompt, n pieces of an image.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from archcli.errors import ArchError
from archcli.modules import Model
from archcli.modules.models.media import GivenMedium, by_tower, token_of
from archcli.modules.spec.request import Medium, Request

AXES = 4
"""Axes of an image, of which the last two are height and width; a spectrogram has one less."""


def given_media(model: Any, tokens: torch.Tensor, media: Sequence[Any]) -> tuple[GivenMedium, ...]:
    """The media of a prompt [B, T]; ArchError where the model or the prompt has no place for them.

    A tensor alone is an image or a sound in one piece, of the size that it has.
    """
    spec: Model = model.spec
    if not any(tower.part in model._modules for tower in spec.towers):
        raise ArchError("this model was built without parts for images and sounds", "build it with them")
    given = tuple([_medium(spec, item) for item in media])
    for tower, read in by_tower(spec, given):
        needed = sum(tower.vectors_of(item.medium) for item in read)
        if tower.added:
            _check_added(tower.part, needed, len(read), tokens.shape[1])
            continue
        placed = (tokens == token_of(tower)).sum(dim=1).unique().tolist()
        if tokens.device.type != "meta" and placed != [needed]:
            what = f"a prompt has {' or '.join(map(str, placed))} tokens {tower.token}"
            raise ArchError(f"{what}, and {tower.part} gives {needed} vectors", "one token for each")
    return given


def _check_added(part: str, vectors: int, media: int, tokens: int) -> None:
    """Refuse a prompt whose tokens are more or less than the vectors of one medium, which are added."""
    if media != 1 or vectors != tokens:
        what = f"a prompt has {tokens} tokens, and {part} gives {vectors} vectors of {media} media"
        raise ArchError(what, "they are added: one medium, and a token for each vector")


def _medium(spec: Model, item: Any) -> GivenMedium:
    if not isinstance(item, torch.Tensor):
        return GivenMedium(Medium(*item[0]), item[1])
    kind = "image" if item.dim() == AXES else next((kind for kind in spec.media if kind != "image"), "frames")
    return GivenMedium(Medium(kind, tuple(item.shape[2 if kind == "image" else -1 :])), item)


def empty_media(spec: Model) -> tuple[GivenMedium, ...]:
    """A medium for each tower, of its usual size, on torch's current device."""
    media = []
    for tower in spec.towers:
        medium = tower.usual
        read = tower.inputs(tower.reading(Request(), medium))["tokens"]
        media.append(GivenMedium(medium, torch.empty(read.shape)))
    return tuple(media)


def tokens_below(spec: Model) -> int:
    """Tokens that a medium of usual size is added to; 0 where vectors stand in the place of tokens."""
    return max((tower.vectors_of(tower.usual) for tower in spec.towers if tower.added), default=0)


def fewer_positions(spec: Model, media: Sequence[GivenMedium]) -> int:
    """How many positions fewer than tokens these media take, where positions go by rows and columns."""
    grids = [
        tower.grid_of(item.medium) for tower, read in by_tower(spec, media) if tower.sections for item in read
    ]
    return sum(h * w - max(h, w) for h, w in grids)
