"""The ranks of a plan as process groups of torch, with barrier, broadcast and gather."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from archcli.errors import ArchError
from archcli.wings.running.runtime.ranks.collectives import ProcessPeers
from archcli.wings.running.runtime.ranks.shares import RankPlace

T = TypeVar("T")
CPU_BACKEND, GPU_BACKEND = "gloo", "nccl"


class JoinedRanks:
    """This process among dp x tp ranks; the ranks of a tensor-parallel group are neighbours.

    device, backend: `cpu` and gloo, or a GPU and nccl.
    rank, number: of this process, and of all processes.
    tp, dp: its rank and the size of its tensor-parallel group, and of the group of replicas.
    peers: its tensor-parallel group; None without one.
    """

    def __init__(self, tp: int, dp: int, device: str) -> None:
        self.device = device
        self.backend = CPU_BACKEND if device == "cpu" else GPU_BACKEND
        kind = torch.device(device).type
        # row-major: neighbouring ranks, of one machine, are of one tp group, which sends most
        self._mesh = init_device_mesh(kind, (dp, tp), mesh_dim_names=("dp", "tp"))
        self.rank, self.number = dist.get_rank(), dist.get_world_size()
        self.tp, self.dp = RankPlace(self.rank % tp, tp), RankPlace(self.rank // tp, dp)
        self.peers = ProcessPeers(self._mesh.get_group("tp")) if tp > 1 else None
        # over gloo on GPUs too: NCCL would run kernels on the device that is timed
        self._agreeing: Any = (
            dist.group.WORLD if self.backend == CPU_BACKEND else dist.new_group(backend="gloo")
        )

    @property
    def replicas(self) -> DeviceMesh:
        """The ranks with the same share of the model, each with another part of the batch."""
        return self._mesh["dp"]

    def meet(self) -> None:
        """Wait for all ranks: a barrier."""
        dist.barrier(group=self._agreeing)

    def shared(self, value: T) -> T:
        """Broadcast the value of rank 0 to all ranks."""
        values = [value]
        dist.broadcast_object_list(values, src=0, group=self._agreeing)
        return values[0]

    def gathered(self, value: T) -> list[T]:
        """Gather the values of all ranks on rank 0; an empty list on the others."""
        values: list[Any] | None = [None] * self.number if self.rank == 0 else None
        dist.gather_object(value, values, dst=0, group=self._agreeing)
        return values or []


def check_devices(local_ranks: int) -> None:
    """Raise ArchError where this machine has fewer GPUs than ranks."""
    devices = torch.cuda.device_count()
    if local_ranks > devices:
        raise ArchError(
            f"{local_ranks} ranks of this machine, a GPU each, and it has {devices}",
            f"--nproc-per-node {devices}" if devices else "--device cpu",
        )


@contextmanager
def joined(tp: int, dp: int, device: str) -> Iterator[JoinedRanks]:
    """Join the ranks that a launcher started, by its environment variables, within the block.

    `device` is "cpu" or the GPU of this rank, "cuda:1".
    """
    if device == "cpu":
        dist.init_process_group(CPU_BACKEND)
    else:
        torch.cuda.set_device(device)
        dist.init_process_group(GPU_BACKEND, device_id=torch.device(device))
    yield JoinedRanks(tp, dp, device)
    # not after an error: it would wait for ranks that have ended
    dist.destroy_process_group()
