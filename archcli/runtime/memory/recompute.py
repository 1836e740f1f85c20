"""Recompute: layers and the loss by torch's checkpointing, which keeps inputs and runs them twice."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy, linear
from torch.utils.checkpoint import checkpoint

from archcli.errors import ArchError
from archcli.modules import Model
from archcli.modules.spec.base import substitute
from archcli.runtime.model.node import ModuleNode

Loss = Callable[[Any, torch.Tensor], torch.Tensor]
"""The scalar that a backward starts at, of the model's output and the targets."""


def recompute_nodes(model: nn.Module, wanted: Callable[[str], bool]) -> list[str]:
    """Recompute the nodes of the built model at the wanted paths in the backward; returns their paths.

    By `checkpoint(use_reentrant=False)`. The state of random numbers is not kept, which would be 5 kB a node
    on a CPU: a model with dropout draws other numbers the second time, in as many bytes.
    """
    nodes = {
        path: node for path, node in model.named_modules() if isinstance(node, ModuleNode) and wanted(path)
    }
    for node in nodes.values():
        vars(node)["forward"] = partial(
            checkpoint, node.forward, use_reentrant=False, preserve_rng_state=False
        )
    return list(nodes)


def without_head(spec: Model) -> Model:
    """The architecture up to its hidden states; ArchError where its head is more than one matrix."""
    head: Any = getattr(spec, "head", None)
    if head is None or getattr(head, "kind", "linear") != "linear" or spec.trains_on_targets:
        raise ArchError("only the loss of a linear head is taken in chunks", "take the plain loss")
    return substitute(spec, {"head": None})


def chunked_loss(weight: torch.Tensor, chunks: int) -> Loss:
    """The cross entropy of hidden states [B, T, d] by a head's weight [V, d], recomputed chunk by chunk."""

    def loss(hidden: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        tokens = targets.numel()
        size = -(-tokens // chunks)
        parts = zip(hidden.flatten(0, 1).split(size), targets.flatten().split(size), strict=True)
        sums = [
            checkpoint(_summed_loss, x, weight, ids, use_reentrant=False, preserve_rng_state=False)
            for x, ids in parts
        ]
        total: torch.Tensor = torch.stack(sums).sum() / tokens
        return total

    return loss


def _summed_loss(x: torch.Tensor, weight: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """The sum of a chunk's cross entropies; its logits live within."""
    return cross_entropy(linear(x, weight).float(), targets, reduction="sum")
