"""Models: embedding, groups of layers, final norm, head.

B batch, T new tokens, D d_model, V vocab_size.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from archcli.arith import Number, label
from archcli.graph import Tensor
from archcli.modules.base import Module, Size, Spec, children
from archcli.modules.block import Block
from archcli.modules.context import Context
from archcli.modules.embedding import Embedding, Head
from archcli.modules.norm import Norm
from archcli.ops import KeepLast, Positions

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
        tables = [block.table(context.positions, x.shape[-1], f"rotary.{label(start + i)}") for i, block in enumerate(blocks)]
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
                yield from ((f"{step}.attention.{field}", what, hint) for field, what, hint in block.attention.check_width(d_model))


class Decoder(Module):
    """A decoder-only language model: tokens [B, T] to logits [B, T, V].

    `norm` is what every layer uses that names none of its own, and, unless `final_norm` is false, what follows the last
    layer. `max_seq_len` is the context it was trained for: it sizes a learned position table and is otherwise a note.
    `published` holds figures a paper or a checkpoint states, which tests compare with what is counted.
    """

    family: ClassVar[str] = "model"
    kind: Literal["decoder"] = "decoder"
    name: str = ""
    source: str = ""
    published: dict[str, int] = Field(default_factory=dict)
    vocab_size: Size
    d_model: Size
    max_seq_len: Size | None = None
    norm: Norm
    final_norm: bool = True
    embedding: Embedding = Field(default_factory=Embedding)
    head: Head = Field(default_factory=Head)
    groups: Annotated[tuple[Group, ...], Field(min_length=1)]

    def forward(
        self, tokens: Tensor, positions: Tensor | None = None, past: Number = 0, cache: Cached = None, last_only: bool = False
    ) -> tuple[Tensor, Cached]:
        """Logits [B, T, V], or [B, 1, V] with `last_only`, and the cache afterwards.

        `cache` None caches nothing, `()` starts one, anything else is what the last call returned; `positions` [T] left
        out start at 0.
        """
        positions = Positions("positions")(tokens) if positions is None else positions
        x, table = self.embedding(tokens, positions, self.vocab_size, self.d_model, name="embedding")
        start: Number = 0
        kept = []
        for i, group in enumerate(self.groups):
            x, entry = group.run(x, Context(positions, past, None, cache[i] if cache else cache), start)
            kept.append(entry)
            start = start + group.n_layers
        x = KeepLast("last")(x) if last_only else x
        x = self.norm(x, name="final_norm") if self.final_norm else x
        logits: Tensor = self.head(x, self.vocab_size, table if self.embedding.tied else None, name="lm_head")
        return logits, None if cache is None else tuple(kept)

    def check(self) -> Iterator[tuple[str, str, str]]:
        """Every layer fits d_model."""
        for i, group in enumerate(self.groups):
            yield from ((f"groups.{i}.{path}", what, hint) for path, what, hint in group.check_width(self.d_model))
