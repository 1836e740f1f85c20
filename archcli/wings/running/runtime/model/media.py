"""Images and sounds for a built model, checked against its towers and the prompt.

B batch, T tokens of the prompt, n pieces of an image.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from archcli.errors import ArchError
from archcli.modules import Model
from archcli.modules.spec.request import Medium, Request
from archcli.wings.media.modules.models.media import by_tower, token_of
from archcli.wings.media.modules.models.tower import GivenMedium

AXES = 4
"""Axes of an image, of which the last two are height and width; a spectrogram has one less."""


class CheckedMedia(tuple[GivenMedium, ...]):
    """Media of a prompt that were checked once: later passes skip the check."""

    __slots__ = ()


def given_media(model: Any, tokens: torch.Tensor, media: Sequence[Any]) -> tuple[GivenMedium, ...]:
    """The media of a prompt [B, T]. Raises ArchError where the model or the prompt has no place for them.

    A tensor without a size is one image or sound of the tensor's size.
    """
    if isinstance(media, CheckedMedia):
        return tuple(media)
    spec: Model = model.spec
    if not any(tower.part in model._modules for tower in spec.towers):
        raise ArchError("this model was built without parts for images and sounds", "build it with them")
    read_media = tuple([_medium(spec, item) for item in media])
    for item in read_media:
        spec.tower_of(item.medium).check_runs(item.medium)
    for tower, read in by_tower(spec, read_media):
        if tower.added:
            vectors = sum(tower.vectors_of(item.medium) for item in read)
            _check_added(tower.part, vectors, len(read), tokens.shape[1])
        # ids on meta have no values to compare
        if tower.added or tokens.is_meta:
            continue
        needed = sum(tower.placed(item.medium) for item in read)
        placed = (tokens == token_of(tower)).sum(dim=1).unique().tolist()
        if placed != [needed]:
            what = f"a prompt has {' or '.join(map(str, placed))} tokens {tower.token}"
            given_by = f"{len(read)} media" if tower.crosses else f"{needed} vectors"
            raise ArchError(f"{what}, and {tower.part} gives {given_by}", "one token for each")
    return read_media


def _check_added(part: str, vectors: int, media: int, tokens: int) -> None:
    """Refuse a prompt with more or fewer tokens than the vectors of its medium, which are added to them."""
    if media != 1 or vectors != tokens:
        what = f"a prompt has {tokens} tokens, and {part} gives {vectors} vectors of {media} media"
        raise ArchError(what, "they are added: one medium, and a token for each vector")


def _medium(spec: Model, item: Any) -> GivenMedium:
    """A medium and its tensor, of a tensor or of ((kind, size), tensor)."""
    if not isinstance(item, torch.Tensor):
        return GivenMedium(Medium(*item[0]), item[1])
    kind = "image" if item.dim() == AXES else next((kind for kind in spec.media if kind != "image"), "frames")
    return GivenMedium(Medium(kind, tuple(item.shape[2 if kind == "image" else -1 :])), item)


FIRST = 3
"""The most tokens of text before the first medium, and between two."""


def with_media(spec: Model, text: torch.Tensor, media: Sequence[Medium]) -> torch.Tensor:
    """Ids of a prompt: `text` [B, T] with a placeholder token for each vector of the media.

    A placeholder token that occurs in the text by chance becomes the next id.
    """
    for token in sorted(tower.token for tower in spec.towers if tower.token is not None):
        text = torch.where(text == token, (token + 1) % spec.vocab_size, text)
    before, placed = min(FIRST, text.shape[1] // max(len(media), 1)), []
    for medium in media:
        tower = spec.tower_of(medium)
        if tower.added:
            continue
        vectors = text.new_full((len(text), tower.placed(medium)), token_of(tower))
        placed += [text[:, :before], vectors]
        text = text[:, before:]
    return torch.cat((*placed, text), dim=1)


def prompt_of(spec: Model, ids: torch.Tensor, media: Sequence[Medium]) -> torch.Tensor:
    """The first of the ids [B, T] as text, so that text and media are T tokens together."""
    placed = sum(spec.tower_of(medium).placed(medium) for medium in media)
    return with_media(spec, ids[:, : ids.shape[1] - placed], media)


def empty_media(spec: Model) -> tuple[GivenMedium, ...]:
    """A medium for each tower, of its usual size, on torch's current device."""
    media = []
    for tower in spec.towers:
        medium = tower.usual
        read = tower.inputs(tower.reading(Request(), medium))["tokens"]
        media.append(GivenMedium(medium, torch.empty(read.shape)))
    return tuple(media)


def tokens_below(spec: Model) -> int:
    """Tokens that a usual medium is added to; 0 where its vectors replace tokens."""
    return max((tower.vectors_of(tower.usual) for tower in spec.towers if tower.added), default=0)


def fewer_positions(spec: Model, media: Sequence[GivenMedium]) -> int:
    """Tokens of media beyond their positions, where positions go by rows and columns."""
    grids = [
        tower.grid_of(item.medium) for tower, read in by_tower(spec, media) if tower.sections for item in read
    ]
    return sum(h * w - max(h, w) for h, w in grids)
