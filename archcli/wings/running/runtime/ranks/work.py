"""The timed work of one rank: its tensor-parallel share of a model, its replica's part of the batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch.distributed.tensor import DTensor
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

from archcli.arith import ceil_div
from archcli.modules import Model
from archcli.modules.models.model import inferring
from archcli.modules.spec.forms import with_forms
from archcli.modules.spec.request import Request
from archcli.modules.tensor_parallel.shard import shard
from archcli.wings.running.runtime.dtypes import DTYPES
from archcli.wings.running.runtime.memory.shards import shard_layers
from archcli.wings.running.runtime.model.build import Cache, LanguageModel, build_model, empty_inputs
from archcli.wings.running.runtime.model.node import ModuleNode
from archcli.wings.running.runtime.model.random_data import (
    BLOCK,
    block_of_weights,
    constant_of,
    random_inputs,
)
from archcli.wings.running.runtime.profile.work import SEED, BuildSettings, Work, pass_of
from archcli.wings.running.runtime.ranks.group import JoinedRanks
from archcli.wings.running.runtime.ranks.shares import fill_part, read_own_words, starts_of


class _OnMeta(NamedTuple):
    """A model on meta with its request: the whole model, or this rank's share."""

    model: LanguageModel
    request: Request


def prepare_rank(spec: Model, request: Request, settings: BuildSettings, group: JoinedRanks) -> Work:
    """Allocate and fill this rank's share of the whole model, and its part of a batch of all replicas.

    `request` is that of all replicas. In training weights are sharded over the replicas by FSDP2, layer by
    layer; otherwise each replica has all of its share.
    """
    request = request.resolved()
    train, dtype = request.phase == "train", DTYPES[settings.dtype]
    generator = torch.Generator().manual_seed(SEED)
    spec = with_forms(spec if train else inferring(spec), request)
    own_request = replace(request, batch_size=request.batch_size // group.dp.ranks)
    share = shard(spec, group.tp.ranks, rank=group.tp.rank)
    whole, share_on_meta = (
        _OnMeta(build_model(part, device="meta", dtype=dtype, attention=settings.attention), part_request)
        for part, part_request in ((spec, request), (share, own_request))
    )
    for on_meta in (whole, share_on_meta):
        on_meta.model.train(train)
    parts = _Parts(group, generator, settings.device)
    # the order of profile/work.py, so that both draw the same numbers: inputs, cache, gradients, weights
    inputs = parts.inputs(random_inputs(spec, request, dtype, generator), request)
    cache = parts.cache(whole, share_on_meta) if request.continues else Cache()
    gradients = parts.gradients(whole, share_on_meta) if train and not spec.trains_on_targets else []
    model = share_on_meta.model
    for node in model.modules():
        if isinstance(node, ModuleNode):
            node.peers = group.peers
    read_own_words(model, whole.model, group.tp)
    if train and group.dp.ranks > 1:
        # on meta, so that no replica ever allocates the whole share
        shard_layers(model, group.replicas)
    model = model.to_empty(device=settings.device)
    parts.fill(whole.model, model)
    return Work(model, pass_of(model, request, inputs, cache, gradients))


class _Parts:
    """This rank's parts of whole tensors: divided by replicas along axis 0, by `tp` along the others."""

    def __init__(self, group: JoinedRanks, generator: torch.Generator, device: str) -> None:
        self.group, self.generator, self.device = group, generator, device

    def inputs(self, drawn: dict[str, torch.Tensor], request: Request) -> dict[str, torch.Tensor]:
        """The replica's sequences of every input."""
        replicas, rank = self.group.dp.ranks, self.group.dp.rank
        return {
            # inputs without an axis of sequences go to every replica whole
            name: (x.chunk(replicas)[rank] if len(x) == request.batch_size else x).to(self.device)
            for name, x in drawn.items()
        }

    def cache(self, whole: _OnMeta, share: _OnMeta) -> Cache:
        """The rank's part of a cache of random entries."""
        block = torch.randn(BLOCK, generator=self.generator)
        sizes = [x.shape for x in _cache_of(whole).tensors()]
        leaves, tree = tree_flatten(_cache_of(share))
        filled = []
        for leaf in leaves:
            if isinstance(leaf, torch.Tensor):
                size = sizes.pop(0)
                part = torch.empty(leaf.shape, dtype=leaf.dtype, device=self.device)
                fill_part(part, size, self._starts(size, leaf.shape), block)
                filled.append(part)
            else:
                filled.append(leaf)
        cache: Cache = tree_unflatten(filled, tree)
        return cache

    def gradients(self, whole: _OnMeta, share: _OnMeta) -> list[torch.Tensor]:
        """The rank's part of a random gradient of each output."""
        parts = []
        for size, output in zip(_outputs_of(whole), _outputs_of(share), strict=True):
            part = torch.randn(size.shape, generator=self.generator)
            starts = self._starts(size.shape, output.shape)
            for axis, (start, length) in enumerate(zip(starts, output.shape, strict=True)):
                part = part.narrow(axis, start, length)
            parts.append(part.to(self.device, output.dtype))
        return parts

    def fill(self, whole: LanguageModel, model: LanguageModel) -> None:
        """Give every weight the rank's part of the whole model's."""
        block = block_of_weights(self.generator)
        for name, weight in model.named_parameters():
            if weight.ndim == 1:
                _local(weight).fill_(constant_of(name))
                continue
            size = whole.get_parameter(name).shape
            for rows, first in self._pieces(whole, model, name):
                starts = [first, *starts_of(size[1:], weight.shape[1:], self.group.tp)]
                fill_part(rows, size, starts, block)
        for buffer in model.buffers():
            buffer.zero_()

    def _pieces(
        self, whole: LanguageModel, model: LanguageModel, name: str
    ) -> Iterator[tuple[torch.Tensor, int]]:
        """(rows of this rank, their first row in the whole) of each piece of a weight.

        A joined weight, such as q, k and v in one matrix, has three pieces. FSDP2 divides the rows once more.
        """
        weight = model.get_parameter(name)
        local, sharded = _local(weight), isinstance(weight, DTensor)
        # FSDP2 divides rows as torch.chunk does: the last ranks may have fewer
        begin = self.group.dp.rank * ceil_div(len(weight), self.group.dp.ranks) if sharded else 0
        of_whole, of_share = 0, 0
        for size, part in zip(_joined(whole, name), _joined(model, name), strict=True):
            first, last = max(of_share, begin), min(of_share + part, begin + len(local))
            if first < last:
                start = of_whole + starts_of([size], [part], self.group.tp)[0]
                yield local[first - begin : last - begin], start + first - of_share
            of_whole, of_share = of_whole + size, of_share + part

    def _starts(self, whole: Sequence[int], share: Sequence[int]) -> list[int]:
        first = starts_of(whole[:1], share[:1], self.group.dp)
        return [*first, *starts_of(whole[1:], share[1:], self.group.tp)]


def _joined(model: LanguageModel, name: str) -> Sequence[int]:
    """Rows of each piece of a joined weight, such as q, k and v; most weights are one piece."""
    path, _, leaf = name.rpartition(".")[0].rpartition(".")
    node: Any = model.get_submodule(path)
    joins = hasattr(node, "spec") and hasattr(node.spec, "joined_rows")
    pieces: Any = node.spec.joined_rows() if joins else {}
    rows: Sequence[int] = pieces.get(leaf, (len(model.get_parameter(name)),))
    return rows


def _local(weight: torch.Tensor) -> torch.Tensor:
    """This rank's part of a weight's numbers."""
    return weight.to_local().data if isinstance(weight, DTensor) else weight.data


def _cache_of(on_meta: _OnMeta) -> Cache:
    with torch.device("meta"), torch.no_grad():
        cache: Cache = on_meta.model.prefill(**empty_inputs(on_meta.model.spec, on_meta.request.filling()))[1]
        return cache


def _outputs_of(on_meta: _OnMeta) -> list[Any]:
    with torch.device("meta"), torch.no_grad():
        return tree_leaves(on_meta.model(**empty_inputs(on_meta.model.spec, on_meta.request)))
