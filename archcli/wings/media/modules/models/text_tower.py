"""Text towers: encoders of texts into the space that they share with images.

B batch, T tokens, D d_model.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Literal

from archcli.arith import Number
from archcli.graph import Row, Tensor
from archcli.modules.models.model import Model
from archcli.modules.models.stack import Cached, Stack
from archcli.modules.spec.base import Size
from archcli.modules.spec.context import Context
from archcli.modules.spec.request import Request
from archcli.ops import KeepLast, Linear, Positions

PROJECTOR, UNREAD = "projector", "unread"


class TextTower(Model, Stack):
    """An encoder of texts beside one of images: tokens [B, T] to a vector of the last, [B, 1, P].

    SigLIP, arXiv:2303.15343. Its tokens all see each other. `projection` is a matrix to the width P of the
    shared space, by default none; `projection_bias` gives it a bias. `unread` are the numbers that scale and
    move products of texts and images. An image does not lengthen the text.
    """

    caches: ClassVar[bool] = False
    is_causal: ClassVar[bool] = False
    kind: Literal["text_tower", "causal_text_tower"] = "text_tower"
    projection: Size | None = None
    projection_bias: bool = True

    def part_of(self, row: Row) -> str:
        """text_tower, and projector for the numbers of the shared space."""
        return PROJECTOR if row.group == UNREAD else "text_tower"

    def fitted(self, request: Request) -> Request:
        """The request without its media, each of which is a tower's own input."""
        for medium in request.media:
            self.tower_of(medium)
        return replace(request, media=()) if request.media else request

    def forward(
        self,
        tokens: Tensor,
        *,
        positions: Tensor | None = None,
        past: Number = 0,
        cache: Cached = None,
        last_only: bool = False,
    ) -> tuple[Tensor, Cached]:
        """[B, T] to [B, 1, P], or with no projection to [B, 1, D]; never a cache."""
        positions = Positions("positions")(tokens) if positions is None else positions
        x, _ = self.embedding(tokens, positions, self.vocab_size, self.d_model, name="embedding")
        self.hold(x)
        x = self.apply_final_norm(self.run(x, Context(positions, past))[0])
        y: Tensor = KeepLast("last")(x)
        if self.projection is not None:
            y = Linear("projection", self.projection, self.projection_bias)(y, group="projection")
        return y, None


class CausalTextTower(TextTower):
    """As a text tower, with tokens that see earlier ones alone (CLIP, arXiv:2103.00020).

    The class reads the token that ends the text, which is the last.
    """

    is_causal: ClassVar[bool] = True
    kind: Literal["causal_text_tower"] = "causal_text_tower"
