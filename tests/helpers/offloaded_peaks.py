"""The peak of a training step of torch whose kept tensors, or whose gradients, leave the device.

On tensors without values. What is packed gives up its storage, as `save_on_cpu` of torch.autograd.graph and
`OffloadActivations` of TRL have it, and what an operation of the backward unpacks is a new one; weights stay.
A gradient is dropped as soon as it is complete, as ZeRO-Offload's is.
"""

from __future__ import annotations

import torch
from torch.autograd.graph import saved_tensors_hooks

from archcli.modules import Model
from archcli.modules.spec.request import Request
from archcli.wings.running.runtime.memory.models import WitnessSetting, loss_of, prepared, recompute_nodes
from archcli.wings.running.runtime.memory.peak import LiveStorages
from archcli.wings.running.runtime.memory.storages import address
from archcli.wings.serving.memory.training.losses import recomputed


def offloaded_peak(
    spec: Model, batch: int, seq: int, parts: tuple[str, ...], *, recompute: str = "none"
) -> int:
    """Bytes beyond the weights at the peak of forward, loss and backward."""
    request = Request("train", batch, seq).resolved()
    with prepared(spec, request, WitnessSetting()) as (model, inputs):
        rule = recomputed(recompute)
        if rule is not None:
            recompute_nodes(model, rule)
        targets = torch.zeros(batch, seq, dtype=torch.int64)
        held = [*model.parameters(), *model.buffers(), *inputs.values(), targets]
        if "optimizer" in parts:
            for weight in model.parameters():
                weight.register_post_accumulate_grad_hook(_drop)
        packed = Packed(held)
        with LiveStorages(held) as live:
            if "activations" in parts:
                with saved_tensors_hooks(packed.pack, packed.unpack):
                    out = model(**inputs)
            else:
                out = model(**inputs)
            total = loss_of(out, targets)
            del out
            total.backward()
        return live.peak.bytes


def _drop(weight: torch.Tensor) -> None:
    weight.grad = None


class Packed:
    """What becomes of saved tensors: weights and scalars stay as they are."""

    def __init__(self, stay: list[torch.Tensor]) -> None:
        self.stay = {address(tensor) for tensor in stay}

    def pack(self, tensor: torch.Tensor) -> object:
        """A description without the storage."""
        if address(tensor) in self.stay or not tensor.dim():
            return tensor
        return tensor.shape, tensor.stride(), tensor.dtype, tensor.device

    def unpack(self, packed: object) -> torch.Tensor:
        """A new tensor of that description."""
        if isinstance(packed, torch.Tensor):
            return packed
        shape, stride, dtype, device = packed
        return torch.empty_strided(shape, stride, dtype=dtype, device=device)
