"""Tables that are split by words: a rank looks up its own, and has zeros for those of others."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from archcli.runtime.ranks.shares import RankPlace, starts_of


def read_own_words(model: nn.Module, whole: nn.Module, place: RankPlace) -> None:
    """Let every table of the rank that has fewer words than the whole model's answer zero for the others."""
    for path, table in model.named_modules():
        if not isinstance(table, nn.Embedding):
            continue
        size, own = whole.get_parameter(f"{path}.weight").shape, table.weight.shape
        if size != own:
            OwnWords(starts_of(size, own, place)[0]).attach(table)


class OwnWords:
    """The words of a rank's table begin at `start`; the sum over the ranks has every token's vector."""

    def __init__(self, start: int) -> None:
        self.start = start
        self._absent: torch.Tensor | None = None

    def attach(self, table: nn.Embedding) -> None:
        """Look up the rank's words alone from now on."""
        table.register_forward_pre_hook(self._shifted)
        table.register_forward_hook(self._zeroed)

    def _shifted(self, table: Any, inputs: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        ids = inputs[0] - self.start
        self._absent = (ids < 0) | (ids >= table.num_embeddings)
        return (ids.masked_fill(self._absent, 0),)

    def _zeroed(self, table: Any, inputs: Any, vectors: torch.Tensor) -> torch.Tensor:
        absent, self._absent = self._absent, None
        return vectors if absent is None else vectors.masked_fill(absent.unsqueeze(-1), 0.0)
