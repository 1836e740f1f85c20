"""Layers that compute in a narrower width than their stream: MobileBERT, arXiv:2004.02984.

B batch, T tokens, D d_model, W width of the bottleneck, H heads, d head_dim.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from archcli.graph import Tensor
from archcli.modules.attention.grouped import MultiHeadAttention
from archcli.modules.attention.mixer import Mixer
from archcli.modules.blocks.block import Block
from archcli.modules.networks.ffn import FeedForward
from archcli.modules.networks.norm import Norm
from archcli.modules.spec.base import Conflict, Inherit, Size, children
from archcli.modules.spec.context import Context, Kept, or_default
from archcli.ops import Linear, TrainedScale

GROUP = "bottleneck"
"""The heading of the matrices around a layer."""


class BottleneckBlock(Block):
    """b = N(Win x); b = N(b + A(x)); b = N(b + F_i b) for each network; x = N(x + Wout b).

    MobileBERT, Sun et al. 2020, arXiv:2004.02984 section 3.1. b is W wide, `width`, as is what attention
    returns; both matrices have biases. Without `width` there are neither matrices nor their norms, and b is
    x: a post-norm block with several networks. `reads` bottleneck gives attention b in the place of x.
    `networks` stand in front of `ffn`, each with a residual and a norm of its own (section 3.3, stacked
    networks); `ffn_norm` is the norm behind `ffn`, where that is another.
    """

    kind: Literal["bottleneck"] = "bottleneck"
    width: Size | None = None
    reads: Literal["stream", "bottleneck"] = "stream"
    networks: tuple[FeedForward, ...] = ()
    ffn_norm: Norm | None = None

    @property
    def all_networks(self) -> tuple[FeedForward, ...]:
        """The network, and those in front of it."""
        return (*super().all_networks, *self.networks)

    def forward(self, x: Tensor, context: Context | None = None) -> tuple[Tensor, Kept]:
        """[B, T, D] to [B, T, D], and what attention keeps."""
        context = or_default(x, context)
        self.hold(x)
        narrow, kept = self._narrowed(x), None
        if self.mixing is not None:
            step, mixer = self.mixing
            read = x if self.reads == "stream" else narrow
            y, kept = mixer(read, context._replace(out_width=self.width), name=step)
            narrow = self._joined(narrow, y, step, self.norm)
        for i, network in enumerate(self.networks):
            narrow = self._joined(narrow, network(narrow, name=f"networks_{i}"), f"networks_{i}", self.norm)
        if self.ffn is not None:
            narrow = self._joined(narrow, self.ffn(narrow, name="ffn"), "ffn", self.ffn_norm or self.norm)
        return self._widened(x, narrow), kept

    def _narrowed(self, x: Tensor) -> Tensor:
        """N(Win x) [B, T, W]."""
        if self.width is None:
            return x
        narrow = Linear("bottleneck_in", self.width, True)(x, group=GROUP)
        normed: Tensor = self.norm(narrow, name="bottleneck_in_norm")
        return normed

    def _widened(self, x: Tensor, narrow: Tensor) -> Tensor:
        """N(x + Wout b) [B, T, D]."""
        if self.width is None:
            return narrow
        y = Linear("bottleneck_out", x.shape[-1], True)(narrow, group=GROUP)
        return self._joined(x, y, "bottleneck_out", self.norm)

    def _joined(self, x: Tensor, y: Tensor, name: str, norm: Norm) -> Tensor:
        """N(x + y)."""
        joined: Tensor = norm(self._add(x, y, name), name=f"{name}_norm")
        return joined

    def check(self) -> Iterator[Conflict]:
        """Conflicts: parts that are missing, attention that cannot narrow, networks with a state."""
        yield from super().check()
        if self.mixing is None or self.ffn is None:
            yield Conflict("bottleneck-parts", "ffn", "it has attention and networks", "state both")
        if self.width is None and self.reads == "bottleneck":
            what = "reads bottleneck needs the width of one"
            yield Conflict("bottleneck-width", "reads", what, "state width, or leave reads out")
        mixer = None if self.mixing is None else self.mixing[1]
        if self.width is not None and mixer is not None and not mixer.narrows:
            what = "attention of kind bottleneck, mha, mqa, gqa or mla returns vectors of another width"
            yield Conflict("bottleneck-attention", "attention", what, "use one of them")
        elif self.width is not None and getattr(mixer, "head_dim", 0) is None:
            what = "head_dim left out is d_model / n_heads, and the layer is narrower"
            yield Conflict("bottleneck-head-dim", "attention.head_dim", what, "state head_dim")
        if any(network.keeps_state for network in self.all_networks):
            what = "a network of a bottleneck cannot carry a state"
            yield Conflict("bottleneck-without-state", "ffn", what, "use kind mlp, glu or moe")

    def check_width(self, d_model: int) -> Iterator[Conflict]:
        """Conflicts of attention with what it reads, and of networks with W."""
        narrow = d_model if self.width is None else self.width
        for step, child in children(self):
            if isinstance(child, Mixer | FeedForward):
                read = d_model if isinstance(child, Mixer) and self.reads == "stream" else narrow
                yield from (conflict.below(step) for conflict in child.check_width(read))


class AffineNorm(Norm):
    """y = weight * x + bias for each channel: what stands in place of a norm, without statistics.

    MobileBERT's NoNorm, arXiv:2004.02984 section 3.3. Weight and bias are trained, and start at 1 and 0.
    """

    per_head: ClassVar[bool] = False
    kind: Literal["affine"] = "affine"
    eps: ClassVar[float] = 0.0  # type: ignore[misc]  # no statistic that it would be added to

    def normalize(self, name: str, axes: int = 1) -> TrainedScale:
        """The op that scales and shifts the last axis."""
        # without `axes`: QKNorm.check refuses gains of each head
        return TrainedScale(name, per_channel=True, bias=True)


class BottleneckAttention(MultiHeadAttention):
    """Multi-head attention whose queries and keys are made of N(W x + w), values of x itself.

    MobileBERT, arXiv:2004.02984 section 3.1. Queries and keys share the matrix to `qk_width` and its norm.
    """

    title: ClassVar[str] = "Attention with a bottleneck"
    short_title: ClassVar[str] = "bottleneck"
    kind: Literal["bottleneck"] = "bottleneck"  # type: ignore[assignment]
    qk_width: Size
    norm: Annotated[Norm, Inherit("norm")]

    def scored(self, x: Tensor) -> Tensor:
        """What queries and keys are projected from, [B, T, W]."""
        narrow: Tensor = Linear("qk_bottleneck", self.qk_width, True)(x)
        normed: Tensor = self.norm(narrow, name="qk_bottleneck_norm")
        return normed

    def check(self) -> Iterator[Conflict]:
        """Conflict: matrices of blocks, which queries and keys of another width than values have not."""
        yield from super().check()
        if self.blocks:
            yield Conflict("bottleneck-blocks", "blocks", "its matrices are whole", "leave blocks out")
