"""Weights of a checkpoint translated into a built model, tensor by tensor, by the table of its family."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

if TYPE_CHECKING:
    from archcli.load.huggingface.weights.map import WeightMap, WeightTarget

Shapes = Mapping[str, tuple[int, ...]]


def pieces(tensor: torch.Tensor, place: WeightTarget, shapes: Shapes) -> Iterator[tuple[str, torch.Tensor]]:
    """(archcli name, tensor) of each part of a stored tensor; `shapes` are those of archcli's weights.

    Raises ValueError where the tensor does not have the shape that ours together need.
    """
    needed = place.stored_shape(shapes)
    if needed != tuple(tensor.shape):
        raise ValueError(f"{place.names[0]} needs a stored shape {needed}, not {tuple(tensor.shape)}")
    take, stacked = place.parts, place.nth is not None
    tensor = tensor[: len(tensor) - take.unread] if take.unread else tensor
    tensor = tensor.flatten() if take.flat else tensor
    tensor = tensor.unflatten(0, (shapes[place.names[0]][0], -1)) if take.merged else tensor
    tensor = tensor.transpose(-1, -2) if take.transposed and tensor.dim() > 1 else tensor
    if len(place.names) == 1:
        yield place.names[0], tensor
        return
    sizes = [shapes[name][take.axis + stacked] // take.groups for name in place.names]
    grouped = tensor.unflatten(take.axis, (take.groups, -1))
    for name, piece in zip(place.names, grouped.split(sizes, dim=take.axis + 1), strict=True):
        yield name, piece.flatten(take.axis, take.axis + 1)


def translate(
    stored: Mapping[str, torch.Tensor], weights: WeightMap, shapes: Shapes
) -> dict[str, torch.Tensor]:
    """Translate a checkpoint to archcli's state dict, without what is no weight by the map.

    Raises KeyError for an unknown or repeated tensor.
    """
    parts: dict[str, dict[int | None, torch.Tensor]] = {}
    for name, tensor in stored.items():
        place = weights.find(name)
        if place is None and weights.reason(name, tuple(tensor.shape)):
            continue
        if place is None:
            raise KeyError(f"{name} has no rule")
        for ours, piece in pieces(tensor, place, shapes):
            of_name = parts.setdefault(ours, {})
            if place.nth in of_name:
                raise KeyError(f"{ours} is written twice, the second time by {name}")
            of_name[place.nth] = piece
    return {
        name: stack[None] if None in stack else torch.stack([stack[i] for i in range(len(stack))])
        for name, stack in parts.items()
    }


@torch.no_grad()
def fill(model: nn.Module, stored: Iterable[tuple[WeightTarget, torch.Tensor]]) -> None:
    """Copy stored tensors into the model's memory and dtype, one at a time."""
    tensors: dict[str, Any] = dict(model.named_parameters())
    tensors |= dict(model.named_buffers())
    shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    for place, tensor in stored:
        for name, piece in pieces(tensor, place, shapes):
            (tensors[name] if place.nth is None else tensors[name][place.nth]).copy_(piece)
