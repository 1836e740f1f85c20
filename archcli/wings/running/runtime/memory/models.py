"""Models and inputs without values for passes that measure memory, recomputed layers included."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.functional import cross_entropy, linear
from torch.utils.checkpoint import checkpoint

from archcli.errors import ArchError
from archcli.modules import Model
from archcli.modules.models.model import inferring
from archcli.modules.spec.base import substitute
from archcli.modules.spec.forms import with_forms
from archcli.modules.spec.kinds import kind_of
from archcli.modules.spec.request import Request
from archcli.wings.running.runtime.dtypes import DTYPES
from archcli.wings.running.runtime.memory.cuda_on_meta import cuda_on_meta, grouped_products_on_meta
from archcli.wings.running.runtime.model.build import (
    LanguageModel,
    build_model,
    empty_inputs,
    set_expert_form,
)
from archcli.wings.running.runtime.model.leaves import ON_META
from archcli.wings.running.runtime.model.node import ModuleNode


class WitnessSetting(NamedTuple):
    """How a model runs to measure its memory.

    dtype: of weights and features.
    attention: "sdpa" for the fused kernel, or "eager".
    backend: "cuda" runs CUDA's operators on the meta device; "cpu" a CPU's, a model on fake tensors and an
    operation on real ones; "real" runs a model on real tensors of a CPU; "meta" on plain meta.
    """

    dtype: str = "bf16"
    attention: str = "sdpa"
    backend: str = "cuda"

    @property
    def device(self) -> str:
        """The device of the tensors."""
        return "cpu" if self.backend in {"cpu", "real"} else "meta"

    @contextmanager
    def operators(self) -> Iterator[None]:
        """Let torch choose this backend's operators within the block."""
        with cuda_on_meta() if self.backend == "cuda" else nullcontext():
            yield


@contextmanager
def prepared(
    spec: Model, request: Request, setting: WitnessSetting
) -> Iterator[tuple[LanguageModel, dict[str, torch.Tensor]]]:
    """The built model and the inputs of the pass by name; new tensors in the block are on their device.

    A fake model is built on meta first: `to_empty` fails under FakeTensorMode.
    """
    with ExitStack() as stack:
        if setting.backend != "cpu":
            model = built(spec, request, setting, setting.device)
            stack.enter_context(torch.device(setting.device))
        else:
            model = built(spec, request, setting, "meta")
            # register Meta kernels first: fake tensors take their shapes from these
            stack.enter_context(grouped_products_on_meta())
            stack.enter_context(FakeTensorMode())
            replace_tensors(model, lambda x: torch.empty(x.shape, dtype=x.dtype, device="cpu"))
        stack.enter_context(setting.operators())
        yield model, inputs_of(spec, request, setting)


def built(spec: Model, request: Request, setting: WitnessSetting, device: str = "meta") -> LanguageModel:
    """The model in the forms of the request, in training or not, experts in their grouped form."""
    train = request.phase == "train"
    formed = with_forms(spec if train else inferring(spec), request)
    model = build_model(formed, device=device, dtype=DTYPES[setting.dtype], attention=setting.attention)
    set_expert_form(model, ON_META if setting.device == "meta" else "grouped")
    return model.train(train)


def inputs_of(spec: Model, request: Request, setting: WitnessSetting) -> dict[str, torch.Tensor]:
    """The inputs of the pass by name, on torch's default device: ids of 0, features of 0."""
    features = DTYPES[setting.dtype]
    return {
        name: torch.zeros_like(x, dtype=x.dtype if x.dtype == torch.int64 else features)
        for name, x in empty_inputs(spec, request).items()
    }


def replace_tensors(model: nn.Module, replaced: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """Replace every weight and buffer of the model in place; tied ones stay tied."""
    new_of: dict[int, torch.Tensor] = {}

    def of(tensor: torch.Tensor) -> torch.Tensor:
        if id(tensor) not in new_of:
            new = replaced(tensor)
            trains = isinstance(tensor, nn.Parameter)
            new_of[id(tensor)] = nn.Parameter(new, tensor.requires_grad) if trains else new
        return new_of[id(tensor)]

    # hold the old tensors: Python may give the id of a freed one to a new one
    kept = [*model.parameters(), *model.buffers()]
    for module in model.modules():
        for tensors in (module._parameters, module._buffers):
            held: Any = tensors
            for name, tensor in held.items():
                held[name] = None if tensor is None else of(tensor)
    del kept


def loss_of(logits: Any, targets: torch.Tensor) -> torch.Tensor:
    """The cross entropy of logits [B, T, V] in fp32, not in chunks."""
    return nn.functional.cross_entropy(logits.float().flatten(0, 1), targets.flatten())


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
    head = spec.output_head
    if head is None or (kind_of(head) or "linear") != "linear" or spec.trains_on_targets:
        raise ArchError("only the loss of a linear head is taken in chunks", "take the plain loss")
    return substitute(spec, {"head": None})


def chunked_loss(weight: torch.Tensor, chunks: int) -> Loss:
    """The cross entropy of hidden states [B, T, d] by a head's weight [V, d], recomputed chunk by chunk."""

    def loss(hidden: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        tokens = targets.numel()
        # rounded up: 10 tokens in 3 chunks are 4, 4 and 2; rounded down they would be 4 chunks
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
    """The sum of a chunk's cross entropies; the chunk's logits are freed on return."""
    return cross_entropy(linear(x, weight).float(), targets, reduction="sum")
