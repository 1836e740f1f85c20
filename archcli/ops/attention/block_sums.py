"""Ops and mask of keys that sum blocks of tokens, beside the keys of tokens near the query (LongT5).

B batch, T tokens, r tokens of a block, M = T // r blocks, D width of a token, H heads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from archcli.arith import Number, Shape, minimum
from archcli.graph import Op, OpClass, Part
from archcli.ops.attention.mask import Mask
from archcli.ops.attention.relative import RelativeBias


@dataclass(frozen=True, slots=True, eq=False)
class SumBlocks(Op):
    """The sums of blocks of `rate` tokens: x [B, T, D] to [B, M, D].

    Tokens behind the last whole block join it. With fewer than `rate` tokens there is no block.
    """

    sign: ClassVar[str] = "sum"
    name: str
    rate: Number

    def shape(self, x: Shape) -> Shape:
        return (x[0], x[1] // self.rate, x[2])

    def parts(self, x: Shape) -> tuple[Part, ...]:
        batch, tokens, width = x
        blocks = tokens // self.rate
        added = minimum(blocks, 1) * (tokens - blocks) * batch * width
        read, written = batch * tokens * width, batch * blocks * width
        back = Part("d_0", OpClass.MOVEMENT, 0, written, read, wrt=0)
        return (Part("sum", OpClass.ELEMENTWISE, added, read, written, (back,)),)

    def run(self, torch: Any, weights: dict[str, Any], x: Any) -> Any:
        blocks = x.shape[1] // self.rate
        if blocks == 0:
            return x[:, :0]
        last = (blocks - 1) * self.rate
        sums = x[:, :last].unflatten(1, (blocks - 1, self.rate)).sum(2)
        return torch.cat([sums, x[:, last:].sum(1, keepdim=True)], dim=1)


@dataclass(frozen=True, slots=True, eq=False)
class BlockBias(RelativeBias):
    """bias[1, h, i, j] = table[bucket(block j - the block of query i), h] for the M blocks of T queries.

    LongT5, arXiv:2112.07916 section 3.2. `visible` is M, and tokens behind the last whole block are of it.
    """

    rate: Number

    def run(self, torch: Any, weights: dict[str, Any], positions: Any) -> Any:
        blocks = torch.arange(self.visible, device=positions.device)
        query_block = (positions // self.rate).clamp(max=max(self.visible - 1, 0))
        bucket = self._bucket(torch, blocks[None, :] - query_block[:, None])
        return weights["weight"][bucket].permute(2, 0, 1)[None]


@dataclass(frozen=True, slots=True, eq=False)
class NearAndSums(Mask):
    """Keys of `near` tokens, and behind them those of `blocks` sums of tokens, which every query sees."""

    kind: ClassVar[str] = "window and sums"
    causal: ClassVar[bool] = False
    compressed: ClassVar[bool] = True
    near: Mask
    blocks: Number = 0

    @property
    def extent(self) -> Number | None:
        return self.near.extent

    def pairs(self, new: Number, past: Number, visible: Number) -> Number:
        return self.near.pairs(new, past, visible - self.blocks) + new * self.blocks

    def allows(self, query: Any, key: Any) -> Any:
        # of tokens, as a drawing shows them: far ones are seen through the sums of their blocks
        return self.near.allows(query, key)

    def covers(self, new: int, visible: int) -> bool:
        return self.near.covers(new, visible - self.blocks)

    def example(self, size: int = 9, largest: int = 3) -> tuple[tuple[bool, ...], ...]:
        """Whether each of a few queries sees each token by itself."""
        return self.near.example(size, largest)

    def sees(self, torch: Any, positions: Any, visible: int, selected: Any = None) -> Any:
        """Whether a query sees a key, [T, S + M]."""
        near = self.near.sees(torch, positions, visible - self.blocks)
        return torch.nn.functional.pad(near, (0, self.blocks), value=True)
