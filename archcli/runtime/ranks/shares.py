"""One rank's part of the random numbers of a whole model: weights, cache, inputs and gradients.

A whole tensor is copies of one block end to end (`runtime/model/random_data.py`), so that a part of it can be
filled without the rest: element i of the whole is element i modulo the block's length.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch

from archcli.arith import ceil_div


class RankPlace(NamedTuple):
    """Which of the ranks that share something this is."""

    rank: int = 0
    ranks: int = 1


def starts_of(whole: Sequence[int], own: Sequence[int], place: RankPlace) -> list[int]:
    """Where a rank's part begins in each axis of the whole tensor.

    An axis that is shorter is divided as torch's `chunk` does, or, where parts are too large or there is less
    than one a rank, held by several ranks alike: heads of keys and values.
    """
    return [_start(size, part, place) for size, part in zip(whole, own, strict=True)]


def _start(size: int, part: int, place: RankPlace) -> int:
    if size == part:
        return 0
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
    at_once = max(1, len(block) // rows.shape[1])
    for begin in range(0, len(rows), at_once):
        piece = rows[begin : begin + at_once]
        first = (torch.arange(begin, begin + len(piece), device=part.device) + starts[0]) * strides[0]
        piece.copy_(block[(first[:, None] + rest) % len(block)])
