"""Sparsity: patterns of attention with gaps, each named after a mask of `ops/attention/mask.py`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

from archcli.arith import Number
from archcli.modules.spec.base import Conflict, Count, Size, Spec
from archcli.ops import Dilated, Fixed, Mask, Strided, WindowAndGlobal


class Sparsity(Spec):
    """Which keys a query sees."""

    family: ClassVar[str] = "sparsity"

    @property
    def mask(self) -> Mask:
        """The pattern as a mask of `ops`."""
        raise NotImplementedError

    def mask_of(self, heads: Number) -> Mask:
        """The mask of so many heads, which see the same keys unless a pattern says otherwise."""
        return self.mask

    @property
    def heads_unit(self) -> int:
        """What divides the number of heads."""
        return 1

    def check_heads(self, heads: int) -> Iterator[Conflict]:
        """Conflicts with the number of heads."""
        yield from ()


class DilatedWindow(Sparsity):
    """Every `dilation`-th key back from the query, `window` of them.

    Longformer, arXiv:2004.05150 section 3.1.
    """

    kind: Literal["dilated"] = "dilated"
    window: Size
    dilation: Size

    @property
    def mask(self) -> Mask:
        """A causal window of every `dilation`-th key."""
        return Dilated(self.window, self.dilation)


class StridedPattern(Sparsity):
    """The `stride` newest keys and every `stride`-th before.

    Child et al. 2019, arXiv:1904.10509 section 4.2.
    """

    kind: Literal["strided"] = "strided"
    stride: Size

    @property
    def mask(self) -> Mask:
        """Both factorized heads merged into one."""
        return Strided(self.stride)


class FixedPattern(Sparsity):
    """The query's block of `stride`, and the last `summary` keys of each earlier block.

    arXiv:1904.10509 section 4.2.
    """

    kind: Literal["fixed"] = "fixed"
    stride: Size
    summary: Size

    @property
    def mask(self) -> Mask:
        """Both factorized heads merged into one."""
        return Fixed(self.stride, self.summary)

    def check(self) -> Iterator[Conflict]:
        """Conflict: a summary longer than its block."""
        if self.summary > self.stride:
            yield Conflict(
                "summary-within-stride",
                "summary",
                f"summary {self.summary} is more than stride {self.stride}",
                "a block has no more keys than its stride",
            )


class BlockSparsePattern(Sparsity):
    """The query's block of `block` tokens and `near` - 1 before it, and of the others every `stride`-th.

    Phi-3-small, arXiv:2404.14219 section 2. With `shifted` each head sees other far blocks than the one
    before it: head h those of index k where (k + h + 1) mod `stride` is 0; without it all see those of the
    first. `stride` divides the number of shifted heads, so that each block is seen by an equal share of them.
    """

    kind: Literal["block_sparse"] = "block_sparse"
    block: Size
    near: Size
    stride: Size
    shifted: bool = False

    def mask_of(self, heads: Number) -> Mask:
        """Near and every `stride`-th block, of all heads."""
        from archcli.ops import BlockSparse  # rare: Phi-3-small

        return BlockSparse(self.block, self.near, self.stride, heads if self.shifted else None)

    @property
    def mask(self) -> Mask:
        """The pattern of the first head."""
        return self.replace(shifted=False).mask_of(1)

    @property
    def heads_unit(self) -> int:
        """The stride of shifted heads."""
        return self.stride if self.shifted else 1

    def check_heads(self, heads: int) -> Iterator[Conflict]:
        """Conflict: shifted heads, of which unequal numbers see a block."""
        if self.shifted and heads % self.stride:
            what = f"stride {self.stride} of shifted heads does not divide n_heads {heads}"
            yield Conflict("stride-divides-heads", "stride", what, "use a divisor, or leave shifted out")


class WindowedGlobal(Sparsity):
    """`window` keys around the query, half to each side; `n_global` tokens see and are seen by all.

    Beltagy et al. 2020, arXiv:2004.05150 section 3.1. For encoders: it is not causal.
    """

    kind: Literal["longformer"] = "longformer"
    window: Size
    n_global: Count = 0

    @property
    def mask(self) -> Mask:
        """A band on both sides of the diagonal, and full rows and columns for global tokens."""
        # the mask counts keys to one side
        return WindowAndGlobal(self.window // 2, self.n_global)


class CentredPattern(Sparsity):
    """`window` keys around the query, itself among them; of an even number one more behind it than before.

    T5Gemma 2, arXiv:2512.14856. For encoders: it is not causal.
    """

    kind: Literal["centred"] = "centred"
    window: Size

    @property
    def mask(self) -> Mask:
        """A band on both sides of the diagonal."""
        from archcli.ops import CentredWindow  # rare: T5Gemma 2

        return CentredWindow(self.window)
