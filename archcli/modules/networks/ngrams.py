"""N-gram streams: vectors of hashed n-grams that each residual stream takes by a gate of its own.

B batch, T new tokens, n streams, D d_model, N tokens of the longest n-gram, h hash functions of a length, E
width of all vectors of a token, K taps of the convolution.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar

from archcli.arith import ceil_div
from archcli.graph import Tensor
from archcli.modules.networks.norm import Norm
from archcli.modules.spec.base import Conflict, Count, Inherit, Module, Size
from archcli.modules.spec.context import Kept
from archcli.ops import (
    Activate,
    Add,
    DilatedConv1d,
    HashNGrams,
    Linear,
    Lookup,
    MergeHeads,
    ShareOut,
    SimilarityGates,
    SplitHeads,
)

TABLE = "ngram_embedding"
"""The heading of the table."""
KEPT_OF_NGRAMS = 2
"""What it caches: the last ids, and the last inputs of the convolution."""


class NGramStreams(Module):
    """What is added to n streams x_1 … x_n for the n-grams that end with a token. Qwen4-Exp.

        e = [table_j row_j(ids), j = 1 … (N - 1) h]                                                     [E]
        g_i = sigmoid(root(norm(W_k e)_i norm(x)_i / sqrt(D))),  root(z) = sign(z) sqrt(|z|)
        v_i = g_i W_v e,  added: v_i + silu(conv(norm(v)_i))

    Bigrams to n-grams of N tokens have h hash functions each, with a table for each function. `tables` are
    the rows of each table. `width` is that of a token's vectors, one of each table, side by side. All tables
    lie in one of equal columns. `pad_to` is what the rows of all tables are rounded up to a multiple of.
    `multipliers` are the N odd numbers of the hash. No n-gram reaches back over a token `boundary`, the end
    of a text. The causal convolution of `conv_kernel` taps, of each channel by itself, reads every N-th
    token. Caches the last N - 1 ids and the last N (K - 1) inputs of the convolution.
    """

    group: ClassVar[str] = "ngrams"
    width: Size
    tables: tuple[Size, ...]
    multipliers: tuple[Size, ...]
    boundary: Count
    pad_to: Size = 1
    conv_kernel: Size = 4
    norm: Annotated[Norm, Inherit("norm")]

    def forward(self, x: Tensor, ids: Tensor, cache: Kept) -> tuple[Tensor, Kept]:
        """What is added to streams x [B, T, n, D], and what is kept of ids [B, T] and inputs."""
        keep, streams = cache is not None, x.shape[-2]
        hashed = HashNGrams("hash", self.multipliers, self.tables, self.boundary, keep)
        rows, *last = hashed(ids, *(cache or ())[:1])
        padded = ceil_div(sum(self.tables), self.pad_to) * self.pad_to
        lookup = Lookup("table", padded, self.width // len(self.tables))
        vectors = lookup(rows, group=TABLE)
        e = MergeHeads("join")(vectors)
        keys = SplitHeads("key_streams", streams)(Linear("key_proj", streams * x.shape[-1])(e))
        keys, queries = (
            self.norm(y, name=f"{name}_norm", axes=2) for name, y in (("key", keys), ("query", x))
        )
        gates = SimilarityGates("gates")(keys, queries)
        values = ShareOut("values")(Linear("value_proj", x.shape[-1])(e), gates)
        inputs = MergeHeads("conv_join")(self.norm(values, name="conv_norm", axes=2))
        conv = DilatedConv1d("conv", self.conv_kernel, len(self.multipliers), keep)
        mixed, *window = conv(inputs, *(cache or ())[1:])
        near = SplitHeads("conv_streams", streams)(Activate("conv_act", "silu")(mixed))
        return Add("conv_add")(values, near), (*last, *window) if keep else None

    def check(self) -> Iterator[Conflict]:
        """Conflicts: unequal numbers of tables for each length, a width that they do not divide, one tap."""
        yield from super().check()
        lengths = len(self.multipliers) - 1
        if lengths < 1 or not self.tables or len(self.tables) % lengths:
            what = f"{len(self.tables)} tables for n-grams of 2 to {len(self.multipliers)} tokens"
            yield Conflict("ngram-tables", "tables", what, "state as many for each length, one or more")
        elif self.width % len(self.tables):
            what = f"width {self.width} is not divided by the {len(self.tables)} tables"
            yield Conflict("ngram-width", "width", what, "each has as many columns")
        if self.conv_kernel == 1:
            yield Conflict(
                "ngram-taps", "conv_kernel", "a convolution of one tap keeps nothing", "use 2 or more"
            )
