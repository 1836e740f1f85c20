"""One rank's part of the random numbers of a whole model, and of tables that are split by words.

A whole tensor is copies of one block end to end (`runtime/model/random_data.py`), so that a part of it can be
filled without the rest: element i of the whole is element i modulo the block's length.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import nn

from archcli.arith import ceil_div


class RankPlace(NamedTuple):
    """A rank's number within its group, and the size of the group."""

    rank: int = 0
    ranks: int = 1


def starts_of(whole: Sequence[int], share: Sequence[int], place: RankPlace) -> list[int]:
    """Where a rank's part begins in each axis of the whole tensor.

    An axis that is shorter is divided as torch's `chunk` does, or, where parts are too large or there is less
    than one a rank, held by several ranks alike: heads of keys and values.
    """
    return [_start(size, part, place) for size, part in zip(whole, share, strict=True)]


def _start(size: int, part: int, place: RankPlace) -> int:
    if size == part:
        return 0
    # torch.chunk: all parts but the last ones have this size
    largest = ceil_div(size, place.ranks)
    if part > largest or size < place.ranks:
        return place.rank * (size // part) // place.ranks * part
    return place.rank * largest


def fill_part(part: torch.Tensor, whole: Sequence[int], starts: Sequence[int], block: torch.Tensor) -> None:
    """Fill a tensor with its part of the whole that consists of copies of the block."""
    if part.numel() == 0:
        return
    block = block.to(part.device, part.dtype)
    strides = [1] * len(whole)
    for axis in range(len(whole) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * whole[axis + 1]
    rest = torch.zeros(1, dtype=torch.int64, device=part.device)
    for size, start, stride in list(zip(part.shape, starts, strides, strict=True))[1:]:
        along = (torch.arange(size, device=part.device) + start) * stride
        rest = (rest[:, None] + along).flatten()
    rows = part.view(len(part), -1)
    # so many rows that the index below is about as large as the block
    at_once = max(1, len(block) // rows.shape[1])
    for begin in range(0, len(rows), at_once):
        piece = rows[begin : begin + at_once]
        first = (torch.arange(begin, begin + len(piece), device=part.device) + starts[0]) * strides[0]
        piece.copy_(block[(first[:, None] + rest) % len(block)])


def read_own_words(model: nn.Module, whole: nn.Module, place: RankPlace) -> None:
    """Let every table of the rank that has fewer words than the whole model's answer zero for the others."""
    for path, table in model.named_modules():
        if not isinstance(table, nn.Embedding):
            continue
        size, share = whole.get_parameter(f"{path}.weight").shape, table.weight.shape
        if size != share:
            OwnWords(starts_of(size, share, place)[0]).attach(table)


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
        # word 0 stands in for a word of another rank: its vector is zeroed afterwards
        return (ids.masked_fill(self._absent, 0),)

    def _zeroed(self, table: Any, inputs: Any, vectors: torch.Tensor) -> torch.Tensor:
        absent, self._absent = self._absent, None
        return vectors if absent is None else vectors.masked_fill(absent.unsqueeze(-1), 0.0)
