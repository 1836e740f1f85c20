"""Bytes of each rank's shards of a model, as torch's FSDP2 and tensor parallelism divide it.

One process plays one rank: a process group of backend "fake" stands for the others, and the model is on meta,
so that nothing is sent or stored. If an axis is not divisible by the ranks, the last ones hold less, or
nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import parallelize_module

from archcli.modules import Model
from archcli.modules.spec.request import Request
from archcli.wings.running.runtime.memory.models import WitnessSetting, built
from archcli.wings.running.runtime.model.node import ModuleNode


class Mesh(NamedTuple):
    """Ranks that divide the batch and the weights (`dp`), and ranks that divide each layer (`tp`)."""

    dp: int = 1
    tp: int = 1


@contextmanager
def fake_rank(rank: int, world_size: int) -> Iterator[None]:
    """Play one rank of a fake process group within the block; one group at a time."""
    from torch.testing._internal.distributed.fake_pg import FakeStore  # registers the backend

    dist.init_process_group("fake", rank=rank, world_size=world_size, store=FakeStore())
    try:
        yield
    finally:
        dist.destroy_process_group()


def shards_of(
    spec: Model,
    mesh: Mesh,
    rank: int = 0,
    *,
    dtype: str = "bf16",
    plan: Mapping[str, Any] | None = None,
) -> dict[str, int]:
    """Bytes of a rank's shard of every weight, by name: FSDP2 over `dp` of each layer and the root.

    plan: torch's parallel style by path of a leaf ("layers.*.attention.q_proj"), over `tp`; every rank holds
    the other weights whole.
    rank: of all; rank // tp is the rank in dp.

    Example: `sum(shards_of(load("llama-3.1-8b").model, Mesh(dp=3), 2).values())`.
    """
    with fake_rank(rank, mesh.dp * mesh.tp):
        model = built(spec, Request("train").resolved(), WitnessSetting(dtype, backend="meta"))
        axes = init_device_mesh("cpu", (mesh.dp, mesh.tp), mesh_dim_names=("dp", "tp"))
        if plan is not None:
            parallelize_module(model, axes["tp"], dict(plan))
        if mesh.dp > 1:
            shard_layers(model, axes["dp"])
        return {name: _local_bytes(weight) for name, weight in model.named_parameters()}


def shard_layers(model: nn.Module, mesh: DeviceMesh) -> None:
    """Shard each layer by FSDP2, and the weights outside of layers with the model as root."""
    nodes = {path: node for path, node in model.named_modules() if isinstance(node, ModuleNode)}
    # FSDP2 frees a layer's weights after its forward. A layer that lends weights to others stays with the
    # root, whose weights are gathered during the whole forward
    lenders = {id(node.lender) for node in nodes.values() if node.lender is not None}
    for path, node in nodes.items():
        if is_layer(path) and not any(id(inner) in lenders for inner in node.modules()):
            fully_shard(node, mesh=mesh)
    fully_shard(model, mesh=mesh)


def is_layer(path: str) -> bool:
    """Whether the path is that of a whole layer: `layers.3`, `encoder.layers.3`."""
    above, _, last = path.rpartition(".")
    return last.isdecimal() and above.rpartition(".")[2] == "layers"


def _local_bytes(weight: torch.Tensor) -> int:
    """Bytes of this rank's part of a weight."""
    local = weight.to_local() if isinstance(weight, DTensor) else weight
    return local.numel() * local.element_size()
