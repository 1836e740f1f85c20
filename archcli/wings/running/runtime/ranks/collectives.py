"""Collectives between processes, each with its gradient, on torch's process groups.

They are torch's functional operators, which a trace shows with the time that a rank waits for the others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

Exchange = Callable[[torch.Tensor], torch.Tensor]


class ProcessPeers:
    """The ranks of a process group, as the operations of `ops/communicate.py` exchange with them."""

    def __init__(self, group: dist.ProcessGroup) -> None:
        self.number, self.rank = group.size(), group.rank()
        self._name = group.group_name
        self._functional = torch.ops._c10d_functional

    def all_reduce(self, x: torch.Tensor) -> torch.Tensor:
        """The sum over the ranks; its gradient as it comes."""
        return _exchanged(x, self._sum, _as_it_comes)

    def sum_gradient(self, x: torch.Tensor) -> torch.Tensor:
        """x itself; backward the sum of the ranks' gradients."""
        return _exchanged(x, _alias, self._sum)

    def all_gather(self, x: torch.Tensor, axis: int, *, sums: bool) -> torch.Tensor:
        """The parts of all ranks; backward the rank's part of the gradient, of the ranks' sum if `sums`."""
        back = self._sum_of_part if sums else self._part
        return _exchanged(x, lambda y: self._joined(y, axis), lambda g: back(g, axis))

    def reduce_scatter(self, x: torch.Tensor, axis: int) -> torch.Tensor:
        """The rank's part of the sum; backward the parts of all ranks."""
        return _exchanged(x, lambda y: self._sum_of_part(y, axis), lambda g: self._joined(g, axis))

    def own_part(self, x: torch.Tensor, axis: int, *, gathers: bool) -> torch.Tensor:
        """The rank's part; backward among zeros, or with `gathers` among the parts of all ranks."""
        back = self._joined if gathers else self._among_zeros
        return _exchanged(x, lambda y: self._part(y, axis), lambda g: back(g, axis))

    def _sum(self, x: torch.Tensor) -> torch.Tensor:
        return self._waited(self._functional.all_reduce(x.contiguous(), "sum", self._name))

    def _joined(self, x: torch.Tensor, axis: int) -> torch.Tensor:
        """The ranks' tensors along an axis; the collective itself puts them along the first."""
        y = self._waited(self._functional.all_gather_into_tensor(x.contiguous(), self.number, self._name))
        return y if axis % x.dim() == 0 else torch.cat(y.chunk(self.number), axis)

    def _sum_of_part(self, x: torch.Tensor, axis: int) -> torch.Tensor:
        """The rank's part of the sum over the ranks; the collective itself divides the first axis."""
        y = x if axis % x.dim() == 0 else torch.cat(x.chunk(self.number, axis))
        return self._waited(
            self._functional.reduce_scatter_tensor(y.contiguous(), "sum", self.number, self._name)
        )

    def _part(self, x: torch.Tensor, axis: int) -> torch.Tensor:
        return x.chunk(self.number, axis)[self.rank].contiguous()

    def _among_zeros(self, x: torch.Tensor, axis: int) -> torch.Tensor:
        zeros = torch.zeros_like(x)
        return torch.cat([x if rank == self.rank else zeros for rank in range(self.number)], axis)

    def _waited(self, x: torch.Tensor) -> torch.Tensor:
        waited: torch.Tensor = self._functional.wait_tensor(x)
        return waited


class _Exchange(torch.autograd.Function):
    """A function of the forward, and one of the gradient."""

    @staticmethod
    def forward(context: Any, x: torch.Tensor, ahead: Exchange, back: Exchange) -> torch.Tensor:
        context.back = back
        return ahead(x)

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> Any:
        return context.back(gradient), None, None


def _exchanged(x: torch.Tensor, ahead: Exchange, back: Exchange) -> torch.Tensor:
    exchanged: torch.Tensor = _Exchange.apply(x, ahead, back)
    return exchanged


def _alias(x: torch.Tensor) -> torch.Tensor:
    """The same numbers as another tensor, as a result must be none of the inputs."""
    return x.view_as(x)


def _as_it_comes(gradient: torch.Tensor) -> torch.Tensor:
    return gradient
