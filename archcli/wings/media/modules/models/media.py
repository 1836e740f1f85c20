"""Images and sounds in a prompt: vectors of towers in the places of a language model's tokens.

B batch, T tokens of the prompt, N vectors of a medium, D width.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from archcli.arith import Number
from archcli.errors import ArchError
from archcli.graph import Tensor
from archcli.modules.spec.context import Context
from archcli.modules.spec.trace import PLACING
from archcli.ops import Add, ConcatTokens, PairPositions, PlaceFeatures, Spans
from archcli.wings.media.modules.models.tower import GivenMedium, Tower

if TYPE_CHECKING:
    from archcli.modules.models.model import Model


class Deepstack(NamedTuple):
    """Vectors of images that are added at their places behind the first layers.

    DeepStack, arXiv:2406.04334; Qwen3-VL. `ids` [B, T] are those of the prompt, `token` that of the places;
    of each layer `features` has the vectors [B, N, D] of every image.
    """

    ids: Tensor
    token: int
    features: tuple[tuple[Tensor, ...], ...]

    def passed(self, layer: Number, x: Tensor, times: Number = 1, period: int = 1) -> Tensor:
        """x [B, T, D] behind a layer, with the vectors that belong there.

        A count visits one of several like layers: `times` of them, one in each `period`, begin with this.
        """
        for like in range(layer, min(layer + times * period, len(self.features)), period):
            op = PlaceFeatures(f"deepstack.{like}", self.token, adds=True)
            x = op(x, self.ids, *self.features[like], group=PLACING)
        return x

    def is_unread(self, layer: Number) -> bool:
        """False: every layer is read."""
        return False


def why_not_run(model: Model) -> str:
    """Why the towers of a model are counted and not run; empty where they are run."""
    if model.lora is not None:
        return "adapters of towers are not defined"
    if not hasattr(model, "mtp"):
        return "images and sounds stand in the prompt of a decoder alone"
    unnamed = [tower.part for tower in model.towers if tower.token is None and not tower.added]
    if unnamed:
        return f"{unnamed[0]} states no token, in whose place its vectors stand"
    strange = [tower for tower in model.towers if tower.width != model.d_model]
    if strange:
        return f"vectors of {strange[0].part} are {strange[0].width} wide, and d_model is {model.d_model}"
    tokens = model.vocab_size + model.embedding.extra_rows
    beyond = [tower for tower in model.towers if (tower.token or 0) >= tokens]
    if beyond:
        return f"token {beyond[0].token} of {beyond[0].part} is none of {tokens} words"
    return ""


def by_tower(model: Model, media: Sequence[GivenMedium]) -> Iterator[tuple[Tower, list[GivenMedium]]]:
    """The towers that read any of the media, each with what it reads in the order of the prompt."""
    for tower in model.towers:
        read = [medium for medium in media if medium.medium.kind in tower.media]
        if read:
            yield tower, read


def read_media(
    model: Model, ids: Tensor, x: Tensor, context: Context, media: Sequence[GivenMedium]
) -> tuple[Tensor, Context]:
    """The embeddings x [B, T, D] of a prompt with the vectors of its media, and the context with the rest.

    The rest: positions of rotary pairs on the grid of an image, tokens that see each other, and vectors for
    the first layers.
    """
    for tower, read in by_tower(model, media):
        seen = [tower(medium.values, medium.medium, name=tower.part) for medium in read]
        if tower.added:
            # one sound of a vector for each token: `given_media` has seen to it
            x = Add(f"{tower.part}_add", meets=False)(x, seen[0][0], group=PLACING)
            continue
        if tower.crosses:
            context = context._replace(memory=joined([vectors for vectors, _ in seen]))
            continue
        token = token_of(tower)
        place = PlaceFeatures(f"{tower.part}_places", token)
        x = place(x, ids, *[vectors for vectors, _ in seen], group=PLACING)
        if tower.taps:
            layers = zip(*[deep for _, deep in seen], strict=True)
            context = context._replace(between=Deepstack(ids, token, tuple(layers)))
        if tower.both_ways != "none":
            spans = Spans(f"{tower.part}_spans", token, tower.both_ways == "prompt")(ids, group=PLACING)
            context = context._replace(spans=spans)
        if tower.sections:
            grids = tuple(tower.grid_of(medium.medium) for medium in read)
            places = PairPositions(f"{tower.part}_positions", token, grids, tower.axes)(ids, group=PLACING)
            context = context._replace(places=places)
    return x, context


def joined(vectors: Sequence[Tensor]) -> Tensor:
    """The vectors [B, N, D] of several media as those of one."""
    first, *others = vectors
    for i, more in enumerate(others, 1):
        first = ConcatTokens(f"media{i}")(first, more, group=PLACING)
    return first


def token_of(tower: Tower) -> int:
    """The id in whose place the vectors of a tower stand; ArchError where none is stated."""
    if tower.token is None:
        raise ArchError(
            f"{tower.part} states no token, in whose place its vectors stand", "add token: its id"
        )
    return tower.token
