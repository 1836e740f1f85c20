"""What torch sends under FSDP2 or tensor parallelism, in a process group without processes."""

from collections import Counter
from math import prod

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate
from torch.distributed.tensor.experimental import implicit_replication
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleOutput,
    RowwiseParallel,
    parallelize_module,
)
from torch.utils._python_dispatch import TorchDispatchMode

from archcli.wings.running.runtime.memory.models import recompute_nodes
from archcli.wings.running.runtime.memory.shards import fake_rank, shard_layers
from archcli.wings.running.runtime.model.build import build_model
from archcli.wings.serving.memory.training.losses import recomputed

NAMES = {
    "all_reduce": ("all_reduce", 0),
    "_allgather_base_": ("all_gather", 0),
    "_reduce_scatter_base_": ("reduce_scatter", 1),
}
"""torch's operations of communication, and which argument is the whole tensor."""
SENT = {"all_reduce": 2, "all_gather": 1, "reduce_scatter": 1}
"""How often (n - 1) / n of the whole tensor is sent, over a ring."""
SEEN = PrepareModuleOutput(
    output_layouts=Replicate(), desired_output_layouts=Replicate(), use_local_output=False
)
"""A norm's output is one tensor for all that read it, whose gradients are summed before they are sent."""


class SentTensors(TorchDispatchMode):
    """(collective, elements of its whole tensor), in order."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = NAMES.get(function.overloadpacket.__name__)
        if name is not None and function.namespace in {"c10d", "_c10d_functional"}:
            self.seen.append((name[0], prod(args[name[1]].shape)))
        return function(*args, **(kwargs or {}))


def sent_by_fsdp(model, ranks, batch, tokens):
    """(times, elements that a rank sends) of each collective of a forward and backward."""
    with fake_rank(0, ranks):
        built, mesh = build_model(model), init_device_mesh("cpu", (ranks,))
        shard_layers(built, mesh)
        return _sent(built, ranks, batch, tokens)


def sent_by_tensor_parallelism(model, ranks, batch, tokens, recompute="none"):
    """The same where matrices are split by columns and then by rows."""
    with fake_rank(0, ranks):
        built, mesh = build_model(model, attention="eager"), init_device_mesh("cpu", (ranks,))
        parallelize_module(built, mesh, dict(_styles(built)))
        with implicit_replication():
            return _sent(built, ranks, batch, tokens, recompute)


def _styles(built):
    for path, _ in built.named_modules():
        name = path.rpartition(".")[2]
        if path == "embedding.tokens":
            yield path, RowwiseParallel(input_layouts=Replicate())
        elif name in {"q_proj", "k_proj", "v_proj"}:
            yield path, ColwiseParallel(use_local_output=False)
        elif name in {"gate_proj", "up_proj", "lm_head"}:
            yield path, ColwiseParallel()
        elif name in {"o_proj", "down_proj"}:
            yield path, RowwiseParallel()
        elif name in {"attention_norm", "ffn_norm"}:
            yield path, SEEN


def _sent(built, ranks, batch, tokens, recompute="none"):
    words, times, sent = torch.zeros(batch, tokens, dtype=torch.long), Counter(), Counter()
    rule = recomputed(recompute)
    if rule is not None:
        recompute_nodes(built, rule)
    with SentTensors() as tensors:
        built(words).sum().backward()
    for name, whole in tensors.seen:
        times[name] += 1
        sent[name] += SENT[name] * whole * (ranks - 1) // ranks
    return {name: (times[name], sent[name]) for name in times}
