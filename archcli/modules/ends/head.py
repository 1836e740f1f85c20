"""Output heads: what all kinds share.

A head maps hidden states to logits. The linear head stands in `embedding.py`, as the two may be tied.

B batch, T tokens, D width of the vectors, V vocab_size.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from archcli.arith import Number
from archcli.graph import Tensor
from archcli.modules.spec.base import Conflict, Inline
from archcli.ops import Linear


class OutputHead(Inline):
    """A map from hidden states to logits, or with targets to their likelihoods."""

    family: ClassVar[str] = "head"
    default_kind: ClassVar[str] = "linear"
    group: ClassVar[str] = "lm_head"
    by_targets: ClassVar[bool] = True
    """Whether training computes something else than the logits of all words."""
    ties: ClassVar[bool] = True
    """Whether the embedding's table can be its matrix."""

    @property
    def token_multiple(self) -> int:
        """The smallest number of targets that every share of the head divides into whole tokens."""
        return 1

    def target_ranges(self, vocab_size: int, tokens: int) -> list[tuple[int, int, int]]:
        """(first id, end id, number of targets) of each range of ids that random targets are drawn from."""
        return [(0, vocab_size, tokens)]

    def forward(
        self, x: Tensor, vocab_size: Number, table: Tensor | None, targets: Tensor | None = None, *, name: str
    ) -> Any:
        """[B, T, D] to a figure per word [B, T, V], or with targets [B, T] to a `Likelihood`.

        `table` is the tied weight, or None.
        """
        raise NotImplementedError

    def check_sizes(self, vocab_size: int, width: int) -> Iterator[Conflict]:
        """Conflicts with a model's vocabulary size V and width D."""
        yield from ()


def output_matrix(x: Tensor, vocab_size: Number, table: Tensor | None, name: str) -> Tensor:
    """The output matrix [V, D]: the tied table, or the head's weight."""
    return x.tape.weight(Linear(name, vocab_size), x) if table is None else table


def all_logits(x: Tensor, vocab_size: Number, table: Tensor | None, name: str) -> Tensor:
    """Logits [B, T, V] by that matrix."""
    logits: Tensor = Linear(name, vocab_size, borrowed=table is not None)(
        x, *([] if table is None else [table])
    )
    return logits
