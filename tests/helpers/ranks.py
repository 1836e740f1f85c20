"""Ranks as threads of one process, which exchange tensors where the operations of a plan say so.

Each has its share of the weights; forward and backward of what is exchanged are written here anew.
"""

import threading
from concurrent.futures import ThreadPoolExecutor

import torch

from archcli.ops import AllGather, AllReduce, OwnPart, ReduceScatter, SumGradient

TIMEOUT = 60


class Ranks:
    """A group of ranks: what each gives, all get."""

    def __init__(self, number):
        self.number, self.own = number, threading.local()
        self.given, self.barrier = [None] * number, threading.Barrier(number, timeout=TIMEOUT)

    def all(self, x):
        self.given[self.own.rank] = x.detach()
        self.barrier.wait()
        given = list(self.given)
        self.barrier.wait()
        return given

    def sum(self, x):
        return torch.stack(self.all(x)).sum(0)

    def joined(self, x, axis):
        return torch.cat(self.all(x), axis)

    def part(self, x, axis):
        return x.chunk(self.number, axis)[self.own.rank].contiguous()

    def run(self, work):
        """work(rank) of all ranks, each in a thread."""

        def of(rank):
            self.own.rank = rank
            try:
                return work(rank)
            except BaseException:
                self.barrier.abort()
                raise

        with ThreadPoolExecutor(self.number) as pool:
            return list(pool.map(of, range(self.number)))

    def exchanges(self):
        """(op class, its run among these ranks)."""
        return {
            AllReduce: lambda op, torch_, weights, x: apply(x, self.sum, lambda g: g),
            SumGradient: lambda op, torch_, weights, x: apply(x, lambda y: y.clone(), self.sum),
            AllGather: lambda op, torch_, weights, x: apply(
                x,
                lambda y: self.joined(y, op.axis),
                lambda g: self.part(self.sum(g) if op.sums else g, op.axis),
            ),
            ReduceScatter: lambda op, torch_, weights, x: apply(
                x, lambda y: self.part(self.sum(y), op.axis), lambda g: self.joined(g, op.axis)
            ),
            OwnPart: lambda op, torch_, weights, x: apply(
                x,
                lambda y: self.part(y, op.axis),
                (lambda g: self.joined(g, op.axis)) if op.gathers else (lambda g: self.padded(g, op.axis)),
            ),
        }

    def of_groups(self):
        """(op class, its run forward alone): each op runs among its own ranks, so many at its stride."""

        def members(op, x):
            given, width = self.all(x), op.ranks * op.stride
            first = self.own.rank // width * width + self.own.rank % op.stride
            return [given[first + op.stride * i] for i in range(op.ranks)]

        def part(op, x):
            return x.chunk(op.ranks, op.axis)[self.own.rank // op.stride % op.ranks]

        return {
            AllReduce: lambda op, torch_, weights, x: sum(members(op, x)),
            SumGradient: lambda op, torch_, weights, x: x,
            AllGather: lambda op, torch_, weights, x: torch.cat(members(op, x), op.axis),
            ReduceScatter: lambda op, torch_, weights, x: part(op, sum(members(op, x))),
            OwnPart: lambda op, torch_, weights, x: part(op, x),
        }

    def padded(self, g, axis):
        """g among zeros for the parts of other ranks."""
        parts = [torch.zeros_like(g) for _ in range(self.number)]
        parts[self.own.rank] = g
        return torch.cat(parts, axis)


class Exchange(torch.autograd.Function):
    @staticmethod
    def forward(context, x, ahead, back):
        context.back = back
        return ahead(x)

    @staticmethod
    def backward(context, gradient):
        return context.back(gradient), None, None


def apply(x, ahead, back):
    return Exchange.apply(x, ahead, back)


def share_of(whole, shape, rank, ranks):
    """The rank's part of a weight: of an axis that is shorter, a chunk, which several ranks may have."""
    for axis, (size, own) in enumerate(zip(whole.shape, shape, strict=True)):
        if size != own:
            largest = -(-size // ranks)
            alike = own > largest or size < ranks  # several ranks have the same
            start = rank * (size // own) // ranks * own if alike else rank * largest
            whole = whole.narrow(axis, start, own)
    return whole


def read_own_words(table, start):
    """Let a rank's table of words answer zero for those of others."""

    def before(module, inputs):
        ids = inputs[0] - start
        module.absent = (ids < 0) | (ids >= module.num_embeddings)
        return (ids.clamp(0, module.num_embeddings - 1),)

    table.register_forward_pre_hook(before)
    table.register_forward_hook(lambda module, inputs, out: out.masked_fill(module.absent[..., None], 0.0))
