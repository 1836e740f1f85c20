"""Degrees: into how many parts tensor, sequence and expert parallelism split a model."""

from __future__ import annotations

from typing import NamedTuple

from archcli.arith import Number, ceil_div, maximum, minimum


class Degrees(NamedTuple):
    """How a model is split, and which rank of the tensor-parallel group is looked at.

    `tp` ranks share every matrix (Megatron-LM, arXiv:1909.08053); with `sp` they also share the tokens of
    norms and residuals (arXiv:2205.05198). `ep` ranks share the experts. With `groups` there are so many
    groups of `tp` ranks, each with sequences of its own (SGLang's attention data parallelism): they share
    feed-forward networks, which read the tokens of all.
    """

    tp: int = 1
    sp: bool = False
    ep: int = 1
    rank: int = 0
    groups: int = 1

    @property
    def of_networks(self) -> int:
        """The ranks that share a feed-forward network, and so have its tokens alike."""
        return self.tp * self.groups

    @property
    def of_expert(self) -> int:
        """The ranks that share each expert: moe_tp, with moe_tp x moe_ep ranks in TensorRT-LLM."""
        return max(1, self.of_networks // self.ep)

    @property
    def sends_tokens(self) -> bool:
        """Whether experts are on ranks with other tokens, which are then sent by all-to-all."""
        return self.ep > self.of_networks

    def chunk(self, size: Number) -> Number:
        """The rank's part of a dimension, which need not divide: ceil(size / tp), less on the last ranks.

        As torch's `chunk`, and so DTensor, has it.
        """
        largest = ceil_div(size, self.tp)
        # 10 among 4 ranks is 3, 3, 3 and 1; of few rows the last ranks may have none
        return minimum(largest, maximum(size - self.rank * largest, 0))
