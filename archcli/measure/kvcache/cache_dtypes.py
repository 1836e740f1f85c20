"""The data types that a cache is kept in, and its bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from archcli.graph import StateContent
from archcli.modules.stored.formats import FORMATS, cache_bytes

EXACT = "fp32"
"""What transformers keeps recurrent states in, and llama.cpp states beside keys and values of any type."""


class CacheDtypes(NamedTuple):
    """The dtype of keys and values, and that of recurrent states.

    `state_dtype` left out is the same. Formats of blocks (q8_0) are of keys and values alone: states and the
    inputs of convolutions are in fp32 beside them, as llama.cpp keeps them.
    """

    dtype: str
    state_dtype: str | None = None

    def of(self, content: StateContent) -> str:
        """The dtype that a state of this content is kept in."""
        plain = EXACT if self.dtype in FORMATS else self.dtype
        if content is StateContent.RECURRENT:
            return self.state_dtype or plain
        return plain if content is StateContent.CONVOLUTION else self.dtype

    def bytes_of(self, elements: Mapping[StateContent, int]) -> int:
        """Bytes of this many elements of each content."""
        by_dtype: Counter[str] = Counter()
        for content, n in elements.items():
            by_dtype[self.of(content)] += n
        return sum(cache_bytes(n, dtype) for dtype, n in by_dtype.items())
