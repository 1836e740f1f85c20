"""Ops and masks of keys that are compressed over tokens: blocks of tokens, each with one key.

DeepSeek-V4, Qwen4-Exp. B batch, T new tokens, S tokens in a window, r tokens of a block, M blocks, d width of
a key.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from archcli.arith import Number, Shape, floor_sum, minimum, prod
from archcli.graph import Op, OpClass, Part, State, StateContent, StateKind
from archcli.ops.attention.attend import ExtendCache
from archcli.ops.attention.mask import Causal, Mask, SlidingWindow, chosen_keys
from archcli.ops.base import SOFTMAX_BACKWARD, SOFTMAX_FORWARD, WHOLE_NUMBERS, movement, summed


@dataclass(frozen=True, slots=True, eq=False)
class CompressTokens(Op):
    """The key of a block of `rate` tokens: the sum of its k, each times its share, a softmax of its gates.

    Inputs k and gate [B, T, W], then where a cache is continued those of the open block [B, o, W] each.
    Outputs the keys of all blocks that close [B, M, d], M = (o + T) // r, and with `keep` k and gate of the
    tokens left. The weight [r, W] is added to the gates, by a token's place in its block.

    Without `overlaps` W is d. With it W is 2 d, and a block's softmax is over 2 r entries: the first halves
    of the block before, the second halves of its own. Of the last closed block the first halves [B, r, d] of
    k and gate are kept too; before the first block they are 0, and their gates minus infinity.
    """

    sign: ClassVar[str] = "compress"
    name: str
    rate: Number
    overlaps: bool
    keep: bool

    def shape(self, k: Shape, gate: Shape, *kept: Shape) -> Any:
        batch, new, width = k
        seen = new + kept[0][1] if kept else new
        closed = seen // self.rate
        left = (batch, seen - closed * self.rate, width)
        of_block = width // 2 if self.overlaps else width
        keys = (batch, closed, of_block)
        if not self.keep:
            return (keys,)
        return (keys, left, left, *((batch, self.rate, of_block),) * (2 if self.overlaps else 0))

    def weights(self, k: Shape, *rest: Shape) -> dict[str, Shape]:
        return {"places": (self.rate, k[-1])}

    def parts(self, k: Shape, *rest: Shape) -> tuple[Part, ...]:
        keys, *left = self.shape(k, *rest)
        n, out, places = keys[0] * keys[1] * self.rate * k[-1], prod(keys), self.rate * k[-1]
        # a softmax without a scale
        softmax = Part("d_1", OpClass.NORMALIZATION, (SOFTMAX_BACKWARD - 1) * n, 2 * n, n, wrt=1)
        gradients = (
            Part("d_0", OpClass.ELEMENTWISE, n, n + out, n, wrt=0),
            Part("d_shares", OpClass.ELEMENTWISE, n, n + out, n, wrt=1),
        )
        moved = sum(prod(shape) for shape in left)
        return (
            Part("places", OpClass.ELEMENTWISE, n, n + places, n, (summed("places", n, places),)),
            Part("softmax", OpClass.NORMALIZATION, (SOFTMAX_FORWARD - 1) * n, n, n, (softmax,)),
            Part("sum", OpClass.ELEMENTWISE, 2 * n - out, 2 * n, out, gradients),
            *((movement("left", moved, moved, ()),) if left else ()),
        )

    def states(self, k: Shape, *rest: Shape) -> tuple[State, ...]:
        elements = sum(prod(shape) for shape in self.shape(k, *rest)[1:])
        kept = State(elements, StateKind.FIXED, content=StateContent.OPEN_BLOCK)
        return (kept,) if self.keep else ()

    def run(self, torch: Any, weights: dict[str, Any], k: Any, gate: Any, *kept: Any) -> Any:
        if kept:
            k, gate = torch.cat([kept[0], k], dim=1), torch.cat([kept[1], gate], dim=1)
        closed = k.shape[1] // self.rate
        end = closed * self.rate
        in_blocks = [x[:, :end].unflatten(1, (closed, self.rate)) for x in (k, gate)]
        in_blocks[1] = in_blocks[1] + weights["places"]
        last: list[Any] = []
        if self.overlaps:
            firsts = kept[2:] or self._before(torch, in_blocks)
            pairs = [self._overlapped(torch, x, first) for x, first in zip(in_blocks, firsts, strict=True)]
            in_blocks, last = [both for both, _ in pairs], [first.clone() for _, first in pairs]
        values, gates = in_blocks
        shares = torch.softmax(gates, dim=2, dtype=torch.float32).to(values.dtype)
        keys = (values * shares).sum(2)
        # copies, so that the cache does not hold the tokens of all blocks
        return (keys, k[:, end:].clone(), gate[:, end:].clone(), *last) if self.keep else (keys,)

    def _before(self, torch: Any, in_blocks: list[Any]) -> tuple[Any, Any]:
        """First halves of k and gate before the first block: zeros that no softmax sees."""
        values, gates = in_blocks
        shape = (values.shape[0], self.rate, values.shape[3] // 2)
        return values.new_zeros(shape), gates.new_full(shape, float("-inf"))

    def _overlapped(self, torch: Any, x: Any, first: Any) -> tuple[Any, Any]:
        """What each block's softmax is over [B, M, 2 r, d], and the first halves of the last block."""
        earlier, newer = x.chunk(2, dim=-1)
        before = torch.cat([first.unsqueeze(1), earlier], dim=1)
        return torch.cat([before[:, : x.shape[1]], newer], dim=2), before[:, -1]


@dataclass(frozen=True, slots=True, eq=False)
class AverageBlocks(Op):
    """The mean of each block of `rate` tokens: x [B, T, d] to [B, M, d], M = (o + T) // r.

    Inputs x, then where a cache is continued the tokens of the open block [B, o, d]. With `keep` also the
    tokens left. Qwen4-Exp.
    """

    sign: ClassVar[str] = "mean"
    name: str
    rate: Number
    keep: bool

    def shape(self, x: Shape, *kept: Shape) -> Any:
        batch, new, width = x
        seen = new + kept[0][1] if kept else new
        closed = seen // self.rate
        means = (batch, closed, width)
        return (means, (batch, seen - closed * self.rate, width)) if self.keep else (means,)

    def parts(self, x: Shape, *kept: Shape) -> tuple[Part, ...]:
        means, *left = self.shape(x, *kept)
        out, moved = prod(means), sum(prod(shape) for shape in left)
        n = out * self.rate
        gradient = Part("d_0", OpClass.ELEMENTWISE, out, out, n, wrt=0)
        mean = Part("mean", OpClass.ELEMENTWISE, n, n, out, (gradient,))
        return (mean, *((movement("left", moved, moved, ()),) if left else ()))

    def states(self, x: Shape, *kept: Shape) -> tuple[State, ...]:
        elements = sum(prod(shape) for shape in self.shape(x, *kept)[1:])
        return (State(elements, StateKind.FIXED, content=StateContent.OPEN_BLOCK),) if self.keep else ()

    def run(self, torch: Any, weights: dict[str, Any], x: Any, *kept: Any) -> Any:
        x = torch.cat([kept[0], x], dim=1) if kept else x
        closed = x.shape[1] // self.rate
        end = closed * self.rate
        means = x[:, :end].unflatten(1, (closed, self.rate)).mean(2)
        # a copy, so that the cache does not hold the tokens of all blocks
        return (means, x[:, end:].clone()) if self.keep else (means,)


@dataclass(frozen=True, slots=True, eq=False)
class BlockPositions(Op):
    """The position of the first token of each of `count` new blocks [M], of new tokens at positions [T]."""

    drawn: ClassVar[str] = "aside"
    zero_cost_reason: ClassVar[str] = WHOLE_NUMBERS
    name: str
    rate: Number
    count: Number

    def shape(self, positions: Shape) -> Shape:
        return (self.count,)

    def trained(self, grads: list[bool], positions: Shape) -> bool:
        return False

    def run(self, torch: Any, weights: dict[str, Any], positions: Any) -> Any:
        new = torch.arange(self.count, device=positions.device)
        return (positions[0] // self.rate + new) * self.rate


@dataclass(frozen=True, slots=True, eq=False)
class ExtendBlocks(ExtendCache):
    """Put the keys of new blocks [B, M, 1, d] behind cached ones, as ExtendCache does with tokens'.

    `seen` are the tokens so far, of which `rate` share an entry.
    """

    rate: Number = 1
    seen: Number = 0

    def states(self, new: Shape, past: Shape | None = None) -> tuple[State, ...]:
        kept = self.shape(new, past)[1]
        width = prod(kept[2:])
        state = State(prod(kept), StateKind.TOKENS, self.seen, self.content, shared_by=self.rate, entry=width)
        return (state,)


@dataclass(frozen=True, slots=True, eq=False)
class JoinBlocks(Op):
    """Keys of tokens [B, S, 1, d], and behind them those of blocks [B, M, 1, d]: [B, S + M, 1, d]."""

    drawn: ClassVar[str] = "concat"
    name: str

    def shape(self, tokens: Shape, blocks: Shape) -> Shape:
        return (tokens[0], tokens[1] + blocks[1], *tokens[2:])

    def parts(self, tokens: Shape, blocks: Shape) -> tuple[Part, ...]:
        sizes = [prod(tokens), prod(blocks)]
        back = tuple(Part(f"d_{i}", OpClass.MOVEMENT, 0, n, n, wrt=i) for i, n in enumerate(sizes))
        return (movement("join", sum(sizes), sum(sizes), back),)

    def run(self, torch: Any, weights: dict[str, Any], tokens: Any, blocks: Any) -> Any:
        return torch.cat([tokens, blocks], dim=1)

    def run_served(self, torch: Any, weights: dict[str, Any], tokens: Any, blocks: Any) -> Any:
        # engines read both where the cache has them
        return torch.side_by_side(tokens, blocks, dim=1)


@dataclass(frozen=True, slots=True, eq=False)
class ClosedBlocks(Mask):
    """Keys of blocks of `rate` tokens: a query sees those whose last token is not behind it."""

    kind: ClassVar[str] = "blocks"
    compressed: ClassVar[bool] = True
    rate: Number

    @property
    def extent(self) -> Number:
        return self.rate

    def pairs(self, new: Number, past: Number, visible: Number) -> Number:
        return floor_sum(past + new + 1, self.rate) - floor_sum(past + 1, self.rate)

    def allows(self, query: Any, key: Any) -> Any:
        return key < (query + 1) // self.rate

    def covers(self, new: int, visible: int) -> bool:
        return False

    def sees(self, torch: Any, positions: Any, visible: int, selected: Any = None) -> Any:
        """Whether a query sees the key of a block, [T, M]."""
        return self.allows(positions[:, None], torch.arange(visible, device=positions.device)[None, :])


@dataclass(frozen=True, slots=True, eq=False)
class NearAndBlocks(Mask):
    """Keys of `near` tokens, and behind them those of `blocks` blocks of `rate` tokens.

    Of closed blocks a query sees all, or the `top_k` that an indexer chooses.
    """

    kind: ClassVar[str] = "window and blocks"
    compressed: ClassVar[bool] = True
    near: Mask
    rate: Number
    blocks: Number = 0
    top_k: Number | None = None

    @property
    def bounded(self) -> bool:
        """Whether the keys of tokens have a bound; those of blocks are cached by themselves."""
        return self.near.bounded

    @property
    def extent(self) -> Number | None:
        return self.near.extent

    def pairs(self, new: Number, past: Number, visible: Number) -> Number:
        of_blocks = self._of_blocks(past + new) - self._of_blocks(past)
        return self.near.pairs(new, past, visible) + of_blocks

    def _of_blocks(self, n: Number) -> Number:
        """Blocks that the first n queries see: 1 // r + … + n // r, each at most top_k."""
        if self.top_k is None:
            return floor_sum(n + 1, self.rate)
        inside = minimum(n + 1, self.top_k * self.rate)
        return floor_sum(inside, self.rate) + (n + 1 - inside) * self.top_k

    def keep(self, past: Number) -> Number:
        return self.near.keep(past)

    def allows(self, query: Any, key: Any) -> Any:
        # of tokens, as a drawing shows them: those of a closed block are seen through its key
        return self.near.allows(query, key) | ((key // self.rate + 1) * self.rate <= query + 1)

    def covers(self, new: int, visible: int) -> bool:
        return False

    def example(self, size: int = 9, largest: int = 3) -> tuple[tuple[bool, ...], ...]:
        """Whether each of a few queries sees each token, near or in a block of 3."""
        small, tokens = NearAndBlocks(SlidingWindow(2), largest), range(size)
        return tuple(tuple(bool(small.allows(query, key)) for key in tokens) for query in tokens)

    def sees(self, torch: Any, positions: Any, visible: int, selected: Any = None) -> Any:
        """Whether a query sees a key [T, S + M]; with the blocks `selected` [B, T, k], [B, 1, T, S + M]."""
        near = self.near.sees(torch, positions, visible - self.blocks)
        closed = ClosedBlocks(self.rate).sees(torch, positions, self.blocks)
        if selected is None:
            return torch.cat([near, closed], dim=-1)
        chosen = chosen_keys(torch, selected, self.blocks) & closed
        return torch.cat([near.expand(len(selected), *near.shape), chosen], dim=-1).unsqueeze(1)


def near_mask(window: Number | None) -> Mask:
    """The mask of tokens near the query: a window's, or all of them."""
    return Causal() if window is None else SlidingWindow(window)
