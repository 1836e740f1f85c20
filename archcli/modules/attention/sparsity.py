"""Sparsity: patterns of attention with gaps, each named after a mask of `ops/attention/mask.py`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

from archcli.modules.spec.base import Conflict, Count, Size, Spec
from archcli.ops import Dilated, Fixed, Mask, Strided, WindowAndGlobal


class Sparsity(Spec):
    """Which keys a query sees."""

    family: ClassVar[str] = "sparsity"

    @property
    def mask(self) -> Mask:
        """The pattern as a mask of `ops`."""
        raise NotImplementedError


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
