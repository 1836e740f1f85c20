"""A built model split by torch's DTensor, in a process group without processes."""

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from archcli.wings.running.runtime.memory.shards import fake_rank
from archcli.wings.running.runtime.model.build import build_model

COLUMN = {"q_proj", "k_proj", "v_proj", "q_b_proj", "kv_b_proj", "gate_proj", "up_proj", "lm_head"}
"""Projections whose outputs are split, as in Megatron-LM, arXiv:1909.08053 section 3."""
ROW = {"o_proj", "down_proj"}
"""Projections whose inputs are split."""
WORDS = {"embedding.tokens", "source", "per_layer_embedding.tokens"}
"""Tables that are split by words."""
EXPERTS = {"gate_proj": 1, "up_proj": 1, "down_proj": 2}
"""The axes of the hidden channels in the stacked weights [E, out, in] of experts."""
OF_HEADS = {"sinks": 0, "score_bias": 1, "pos_q_proj": 0, "pos_k_proj": 0, "lm_head": 0}
"""The axes of heads, or of words, in weights that are no matrix of a Linear."""


def local_shapes(model, rank, ranks, *, by_expert=False):
    """(name, shape) of each parameter that one rank holds, where matrices or experts are split."""
    with fake_rank(rank, ranks):
        mesh = init_device_mesh("cpu", (ranks,))
        built = build_model(model, device="meta", dtype=torch.bfloat16)
        if not by_expert:
            parallelize_module(built, mesh, dict(_plan(built)))
        return {
            name: tuple(_local(name, weight, mesh, by_expert=by_expert).shape)
            for name, weight in built.named_parameters()
        }


def _plan(built):
    for path, module in built.named_modules():
        name = path.rpartition(".")[2]
        if path in WORDS:
            yield path, RowwiseParallel(input_layouts=Replicate())
        elif not isinstance(module, torch.nn.Linear):
            continue
        elif name in {"k_proj", "v_proj"} and built.get_submodule(path.rpartition(".")[0]).spec.kv_heads == 1:
            continue  # the only head of keys and values is held by all ranks
        elif name in COLUMN:
            yield path, ColwiseParallel()
        elif name in ROW:
            yield path, RowwiseParallel()


def _local(name, weight, mesh, *, by_expert):
    """The rank's part of a parameter: of DTensor's plan, or of a stack of experts, or of heads."""
    if isinstance(weight, DTensor):
        return weight.to_local()
    axis = _axis(name.split(".")[-2], weight, by_expert=by_expert, routed=".experts." in name)
    return weight if axis is None else distribute_tensor(weight, mesh, [Shard(axis)]).to_local()


def _axis(of_op, weight, *, by_expert, routed):
    """The axis that is split of a weight that is no matrix of a Linear; None for a weight all ranks have."""
    if by_expert:
        return 0 if routed else None
    if routed:
        axis = EXPERTS.get(of_op)
        return axis if axis is not None and axis < weight.dim() else None  # the bias of down is [E, D]
    if of_op in {"q_norm", "k_norm"}:
        return 0 if weight.dim() == 2 else None  # a gain for each head and channel
    return OF_HEADS.get(of_op)
