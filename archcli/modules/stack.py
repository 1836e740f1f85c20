"""Stacks: groups of layers one after another, with what they share.

Models and the halves of an encoder-decoder are made of one.

B batch, T new tokens, S visible tokens, D d_model.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from archcli.arith import Number, label
from archcli.graph import Tensor
from archcli.modules.base import Inherit, Module, Size, Spec, children
from archcli.modules.block import Block
from archcli.modules.context import Context
from archcli.modules.norm import Norm
from archcli.modules.relative import ScoreBias
from archcli.values import Length

Cached = tuple[Any, ...] | None


class Group(Spec):
    """`n_layers` layers that repeat one `layer`, or a `pattern` of layers over and over (five local, one global)."""

    n_layers: Size
    layer: Block | None = None
    pattern: tuple[Block, ...] = ()

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The layers of one period; a stack shorter than its pattern has the first of them."""
        pattern = self.pattern if self.layer is None else (self.layer,)
        return pattern[: self.n_layers] if isinstance(self.n_layers, int) else pattern

    def run(self, x: Tensor, context: Context, start: Number) -> tuple[Tensor, Cached]:
        """[B, T, D] through all layers, the first of which is layer `start`.

        The cache has an entry per layer, when counting per distinct layer.
        """
        blocks, cache = self.blocks, context.cache
        tables = [
            block.table(context.positions, x.shape[-1], f"rotary.{label(start + i)}")
            for i, block in enumerate(blocks)
        ]
        kept = []
        for i, times in x.tape.occurrences(self.n_layers, len(blocks)):
            own = context._replace(rotary=tables[i % len(blocks)], cache=cache[i] if cache else cache)
            x, entry = blocks[i % len(blocks)](x, own, name=f"layers.{label(start + i)}", times=times)
            kept.append(entry)
        return x, None if cache is None else tuple(kept)

    def check(self) -> Iterator[tuple[str, str, str]]:
        """One of layer and pattern."""
        if self.layer is None and not self.pattern:
            yield "layer", "a group needs a layer, or a pattern of layers", "add layer: {kind: pre_norm, …}"
        if self.layer is not None and self.pattern:
            yield "pattern", "a group has a layer or a pattern, not both", "leave one of them out"

    def check_width(self, d_model: int) -> Iterator[tuple[str, str, str]]:
        """What the layers cannot know alone: whether they fit a residual stream of width D."""
        for step, block in children(self):
            if isinstance(block, Block):
                yield from (
                    (f"{step}.{field}", what, hint) for field, what, hint in block.check_width(d_model)
                )


class Stack(Module):
    """x through all groups, then the final norm.

    `final_norm` false leaves the norm out (BERT, the original Transformer).

    `score_bias` is computed once and added to the attention scores of every layer (T5's relative positions).
    """

    norm: Annotated[Norm, Inherit("norm")]
    final_norm: bool = True
    score_bias: ScoreBias | None = None
    groups: Annotated[tuple[Group, ...], Length(least=1)]

    def run(self, x: Tensor, context: Context) -> tuple[Tensor, Cached]:
        """[B, T, D] to [B, T, D] through all layers; the cache has an entry per group."""
        cache = context.cache
        start: Number = 0
        if self.score_bias is not None:
            bias = self.score_bias(
                context.positions, self._visible(context), self._n_heads, name="score_bias"
            )
            context = context._replace(bias=bias)
        kept = []
        for i, group in enumerate(self.groups):
            x, entry = group.run(x, context._replace(cache=cache[i] if cache else cache), start)
            kept.append(entry)
            start = start + group.n_layers
        return x, None if cache is None else tuple(kept)

    def apply_final_norm(self, x: Tensor) -> Tensor:
        """The final norm, if there is one."""
        normalized: Tensor = self.norm(x, name="final_norm") if self.final_norm else x
        return normalized

    @property
    def _n_heads(self) -> Number:
        return self.groups[0].blocks[0].attention.n_heads

    def _visible(self, context: Context) -> Number:
        """S: the new tokens and those that the first layer's cache holds."""
        new = context.positions.shape[0]
        return new + (_first(context.cache).shape[1] if context.cache else 0)

    def check_width(self, d_model: int) -> Iterator[tuple[str, str, str]]:
        """What is wrong with any layer on a residual stream of width D."""
        for i, group in enumerate(self.groups):
            yield from (
                (f"groups.{i}.{field}", what, hint) for field, what, hint in group.check_width(d_model)
            )

    def check(self) -> Iterator[tuple[str, str, str]]:
        """A score bias is shared, so all layers have as many heads and no window."""
        yield from super().check()
        for i, group in enumerate(self.groups if self.score_bias is not None else ()):
            for block in group.blocks:
                if (
                    block.attention.n_heads != self._n_heads
                    or block.attention.window
                    or block.attention.chunk
                ):
                    yield (
                        f"groups.{i}",
                        "layers that share a score bias need equal n_heads, no window and no chunk",
                        "make them alike",
                    )


def _first(cache: Any) -> Tensor:
    """The first tensor of a cache: keys of the first layer, [B, n, …]."""
    while not isinstance(cache, Tensor):
        cache = cache[0]
    return cache
