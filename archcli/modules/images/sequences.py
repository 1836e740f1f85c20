"""GridSequence: the places of a grid become a sequence with a class token, between layers.

B batch, h and w rows and columns, C channels, T = h w tokens and those in front.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from archcli.graph import Tensor
from archcli.modules.blocks.block import Block
from archcli.modules.networks.grid_joins import check_places
from archcli.modules.spec.base import Conflict, Size
from archcli.modules.spec.context import Context, Kept
from archcli.modules.spec.unread import Holder
from archcli.ops import Add, FlattenPlaces, Parameter, PrependTokens


class GridSequence(Block):
    """y = [class token; x] + P: a grid of `number` places row by row, with a trained vector of each token.

    Pyramid vision transformers, arXiv:2102.12122, before their last stage.
    """

    kind: Literal["grid_sequence"] = "grid_sequence"
    number: Size

    @property
    def leading(self) -> int:
        """One: the class token."""
        return 1

    def forward(self, x: Tensor, context: Context | None = None) -> tuple[Tensor, Kept]:
        """[B, h, w, C] to [B, T, C]."""
        check_places(x, self.number)
        tokens = PrependTokens("class_token")(FlattenPlaces("flatten")(x), group="patch_embedding")
        table = Parameter("positions", (1 + self.number, x.shape[3]))(x, group="position_embedding")
        return Add("positions_add")(tokens, table), None

    def check(self) -> Iterator[Conflict]:
        """Conflict: a mixer or a network, which this layer has none of."""
        yield from Holder.check(self)
        if self.mixing is not None or self.ffn is not None:
            what = "a layer that makes a sequence of a grid has no mixer and no network"
            yield Conflict("sequence-parts", "ffn", what, "leave them out")


__all__ = ["GridSequence"]
