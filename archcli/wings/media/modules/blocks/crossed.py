"""Blocks of towers for several tiles, and of latents that attend to a tower's output.

B batch, T tokens, S tokens of the memory, D width, t tiles.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from archcli.errors import ArchError
from archcli.graph import Tensor
from archcli.modules.attention.cross import CrossAttention
from archcli.modules.blocks.block import Block, SerialBlock
from archcli.modules.spec.base import Conflict, Size
from archcli.modules.spec.context import Context, Kept, or_default
from archcli.modules.spec.unread import Holder
from archcli.ops import AddTileTable, ConcatTokens, Regroup, TanhScale


class PerceiverBlock(Block):
    """x += A(N x, [M c; N x]); x += F(N x): latents x read the tokens c and themselves, each with a norm.

    Flamingo's resampler, arXiv:2204.14198 section 2.1; Idefics2.
    """

    kind: Literal["perceiver"] = "perceiver"
    cross_attention: CrossAttention

    def forward(self, x: Tensor, context: Context | None = None) -> tuple[Tensor, Kept]:
        """[B, T, D] to [B, T, D]."""
        context = or_default(x, context)
        if context.memory is None:
            raise ArchError("a perceiver layer needs the tokens that its latents read")
        self.hold(x)
        latents = self.norm(x, name="cross_attention_norm")
        read = ConcatTokens("read")(self.norm(context.memory, name="memory_norm"), latents)
        y, _ = self.cross_attention(
            latents, context._replace(memory=read, cache=None), name="cross_attention"
        )
        x = self._add(x, y, "cross_attention")
        if self.ffn is not None:
            x = self._add(x, self.ffn(self.norm(x, name="ffn_norm"), name="ffn"), "ffn")
        return x, None

    def check(self) -> Iterator[Conflict]:
        """Conflicts: a mixer of its own stream, or no network."""
        yield from super().check()
        if self.mixing is not None or self.ffn is None:
            what = "its cross_attention mixes tokens, and ffn works on each"
            yield Conflict("perceiver-parts", "ffn", what, "state ffn, and no attention or mixer")


class GatedPreNorm(SerialBlock):
    """x += tanh(a) A(N x); x += tanh(b) F(N x), a and b trained numbers that start at 0.

    Flamingo, arXiv:2204.14198 section 2.2; the global layers of Llama 3.2 Vision. With `cross_attention` and
    no attention of its own it reads images (the layers between those of its language model). Where there are
    none it passes x by, network and all, as the class does.
    """

    kind: Literal["gated_pre_norm"] = "gated_pre_norm"

    def forward(self, x: Tensor, context: Context | None = None) -> tuple[Tensor, Kept]:
        """As every block; x itself for one that reads images where there are none."""
        context = or_default(x, context)
        if not self.reads_media or context.memory is not None or context.cache:
            return super().forward(x, context)
        tape = x.tape.declaring()
        if tape is not None:
            x_declared = Tensor(tape, x.value)
            # x stands for the vectors of an image: shapes of weights go by its width alone
            super().forward(x_declared, Context(Tensor(tape, context.positions.value), memory=x_declared))
        return x, None if context.cache is None else ()

    def before(self, x: Tensor, name: str) -> Tensor:
        """N x."""
        normalized: Tensor = self.norm(x, name=f"{name}_norm")
        return normalized

    def after(self, x: Tensor, y: Tensor, name: str) -> Tensor:
        """x + tanh(g) y."""
        return self._add(x, TanhScale(f"{name}_gate")(y, group="norms"), name)


class TileEmbedding(Block):
    """x = N x + tanh(g) E[tile]: a vector for each of `tiles`, by how they are arranged.

    Llama 3.2 Vision, which knows `arrangements` of tiles.
    """

    kind: Literal["tile_embedding"] = "tile_embedding"
    tiles: Size
    arrangements: Size

    def forward(self, x: Tensor, context: Context | None = None) -> tuple[Tensor, Kept]:
        """[B, t n, D] to [B, t n, D]."""
        _, tokens, width = x.shape
        y = Regroup("tiles", tokens // self.tiles, width)(self.norm(x, name="norm"))
        y = AddTileTable("tile_embedding", self.tiles, self.arrangements)(y, group="position_embedding")
        back: Tensor = Regroup("tokens", tokens, width)(y)
        return back, None

    def check(self) -> Iterator[Conflict]:
        """Conflict: a mixer or a network, which this layer has none of."""
        yield from Holder.check(self)
        if self.mixing is not None or self.ffn is not None:
            what = "a layer that adds vectors of tiles has no mixer and no network"
            yield Conflict("tile-parts", "ffn", what, "leave them out")
