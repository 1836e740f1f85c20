"""Blocks shared by several layers of a stack, and the layers that use them.

B batch, T new tokens, D d_model, e the embeddings [B, T, D] that the stack was given.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, ClassVar, Literal

from archcli.errors import ArchError
from archcli.graph import Tensor
from archcli.modules.adapters.adapted import Adapted
from archcli.modules.adapters.shared_block import AdapterTape, Target
from archcli.modules.blocks.block import Block
from archcli.modules.spec.base import Conflict, Size
from archcli.modules.spec.context import Context, Kept, SharedBlocks, changed, or_default
from archcli.ops import Add, Concat, Linear


class ConcatBlock(Block):
    """y = F(N A(N [x | e])): the stream beside the embeddings, through attention and network in turn.

    Zamba, arXiv:2405.16712 section 2.2. Attention reads vectors of 2 D and returns D; there is no residual:
    the layer that uses the block adds y to what its own mixer reads. It stands among `shared` blocks alone.
    """

    kind: Literal["concat"] = "concat"
    reads_embedding: ClassVar[bool] = True

    def forward(self, x: Tensor, context: Context | None = None) -> tuple[Tensor, Kept]:
        """[B, T, D] to [B, T, D], and what attention keeps."""
        context = or_default(x, context)
        self.hold(x)
        kept: Kept = None if context.cache is None else ()
        # outside of a stack there are no embeddings: x stands for them
        y = Concat("concat")(x, x if context.embedding is None else context.embedding)
        if self.mixing is not None:
            step, mixer = self.mixing
            narrowing = context._replace(out_width=x.shape[-1])
            y, kept = mixer(self.norm(y, name=f"{step}_norm"), narrowing, name=step)
        if self.ffn is not None:
            y = self.ffn(self.norm(y, name="ffn_norm"), name="ffn")
        return y, kept

    def check(self) -> Iterator[Conflict]:
        """Conflicts: no attention that narrows its output, or what needs a residual."""
        yield from super().check()
        mixer = None if self.mixing is None else self.mixing[1]
        if mixer is None or not mixer.narrows:
            what = "attention of kind mha, mqa, gqa or mla makes D of the 2 D that a concat block reads"
            yield Conflict("concat-attention", "attention", what, "state one of them")
        # mla has no head_dim: it states all of its widths
        elif hasattr(mixer, "head_dim") and mixer.head_dim is None:
            what = "head_dim left out is d_model / n_heads, and the block reads 2 d_model"
            yield Conflict("concat-head-dim", "attention.head_dim", what, "state head_dim")
        yield from self.check_plain("a concat block, which has no residual")
        yield from self.check_stateless("a concat block")

    def check_width(self, d_model: int) -> Iterator[Conflict]:
        """Conflicts of attention with vectors of 2 D."""
        yield from super().check_width(2 * d_model)


class SharedLayer(Block):
    """A layer that runs a block of its stack's `shared`, by the name in `use`.

    Of a block that returns the stream it is that block: x = S(x). Of a concat block, whose y = S(x) is no
    stream, it adds W y to what its first sublayer reads: x += M(N(x + W y)) (Zamba, arXiv:2405.16712
    equation 6), or to the stream where it has no sublayer. `project` gives it the matrix W [D, D]; without it
    y is added as it is.

    `adapter_rank` r gives it adapters of its own in the block (Zamba 2, arXiv:2411.15242 section 2): y = Wx +
    B A x with A [r, in], B [out, r] at each projection in `adapter_targets`; gate_up is one A for gate and
    up. `attention` or `mixer` and `ffn` are sublayers of its own, in pre-norm. The cache is a pair where both
    the block and the layer have a mixer.
    """

    kind: Literal["shared"] = "shared"
    use: str
    project: bool = False
    adapter_rank: Size | None = None
    adapter_targets: tuple[Target, ...] = ("q", "k", "v", "gate_up")

    @property
    def used(self) -> str:
        """The name of the shared block that it runs."""
        return self.use

    @property
    def is_alone(self) -> bool:
        """Whether it has no sublayer of its own."""
        return self.mixing is None and self.ffn is None

    def check(self) -> Iterator[Conflict]:
        """Conflict: a network of its own that carries a state."""
        yield from super().check()
        yield from self.check_stateless("a layer that uses a shared block")

    def resolved(self, shared: SharedBlocks) -> tuple[Block, Any, str | None]:
        """(block, module to run, key of its weights): the shared block if the layer adds nothing to it."""
        block = self._block(shared)
        if block.reads_embedding or not self.is_alone or self.unread:
            return self, self, None
        return block, self._adapted(block), self._key(shared)

    def forward(self, x: Tensor, context: Context | None = None) -> tuple[Tensor, Kept]:
        """[B, T, D] to [B, T, D], and what the block and the layer's mixer keep."""
        context = or_default(x, context)
        self.hold(x)
        block, cache = self._block(context.shared), context.cache
        of_block, of_mixer = cache if cache and self.mixing is not None else (cache, cache)
        # the stack's table, and what is lent, belong to the layer's own mixer
        inner = context._replace(cache=of_block, rotary=None, lends=False, borrowed=None)
        # the key stores the block's weights once for all layers of the stack that use it
        y, kept = x.tape.call(self._adapted(block), "shared", x, inner, shares=self._key(context.shared))
        if self.project:
            y = Linear("shared_proj", x.shape[-1])(y, group="attention")
        if not block.reads_embedding:
            x, read = y, y
        elif self.is_alone:
            x = read = self._add(x, y, "shared")
        else:
            read = Add("shared_add")(x, y)
        if self.mixing is not None:
            step, mixer = self.mixing
            mixed, states = mixer(
                self.norm(read, name=f"{step}_norm"), context._replace(cache=of_mixer), name=step
            )
            x = read = self._add(x, mixed, step)
            of_block = kept
            kept = changed(states, lambda state: None if state is None else (of_block, state))
        if self.ffn is not None:
            x = self._add(x, self.ffn(self.norm(read, name="ffn_norm"), name="ffn"), "ffn")
        return x, kept

    def _block(self, shared: SharedBlocks) -> Block:
        if self.use not in shared.blocks:
            raise ArchError(f"a layer that uses the shared block {self.use!r} runs within its stack alone")
        block: Block = shared.blocks[self.use]
        return block

    def _adapted(self, block: Block) -> Any:
        if self.adapter_rank is None:
            return block
        return Adapted(block, partial(AdapterTape, rank=self.adapter_rank, targets=self.adapter_targets))

    def _key(self, shared: SharedBlocks) -> str:
        return f"{shared.stack}.shared.{self.use}"
