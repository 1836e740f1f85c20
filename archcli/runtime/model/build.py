"""Build: an architecture as an ordinary nn.Module tree, with the names and shapes that are counted."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from archcli.errors import ArchError
from archcli.graph import Tensor
from archcli.modules import Model
from archcli.modules.adapters.lora import unadapted
from archcli.modules.spec.request import Phase, Request
from archcli.recording.machine import available_memory
from archcli.runtime.dtypes import default_dtype
from archcli.runtime.model.build_tape import BuildTape
from archcli.runtime.model.leaves import StackedLinear
from archcli.runtime.model.node import EAGER, FUSED, ModuleNode


class Cache(NamedTuple):
    """The cache of all layers after `length` tokens; owned by the caller, replaced at every step."""

    length: int = 0
    layers: tuple[Any, ...] = ()

    def tensors(self) -> list[torch.Tensor]:
        """The states of all layers."""
        return [leaf for leaf in tree_leaves(self.layers) if isinstance(leaf, torch.Tensor)]


class LanguageModel(ModuleNode):
    """A model: `model(tokens)` gives logits, or hidden states without a head.

    An encoder-decoder is called as `model(tokens, source)`. `model(tokens, targets=ids)` gives the loss of a
    model that predicts tokens: the cross entropy, unless it states another. `prefill` and `decode` run
    through a cache that the caller owns. An encoder has none; one with a head and a classifier gives a pair.
    """

    spec: Model

    def forward(
        self,
        tokens: torch.Tensor,
        source: torch.Tensor | None = None,
        *,
        positions: torch.Tensor | None = None,
        targets: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Logits [B, T, V] of token ids [B, T], which start at position 0 unless positions [T] are given.

        With targets [B, T], each token's successor, the loss. Raises ArchError for too few tokens.
        """
        if targets is not None:
            self.spec.require_tokens(tokens.shape[1])
        answer: torch.Tensor = super().forward(
            **_given(tokens=tokens, source=source, positions=positions, targets=targets)
        )[0]
        return answer

    def step(
        self,
        tokens: torch.Tensor,
        cache: Cache,
        source: torch.Tensor | None = None,
        *,
        last_only: bool = False,
    ) -> tuple[torch.Tensor, Cache]:
        """Logits of new tokens [B, T] after those in the cache, and the extended cache.

        Raises ArchError for an encoder, which caches nothing.
        """
        if not unadapted(self.spec).caches:
            raise ArchError(
                "an encoder has no cache to fill and generates nothing",
                "call the model on all tokens at once",
            )
        end = cache.length + tokens.shape[1]
        positions = torch.arange(cache.length, end, device=tokens.device)
        logits, layers = super().forward(
            **_given(tokens=tokens, source=source, positions=positions),
            cache=cache.layers,
            last_only=last_only,
        )
        return logits, Cache(end, layers)

    def prefill(self, tokens: torch.Tensor, source: torch.Tensor | None = None) -> tuple[torch.Tensor, Cache]:
        """Logits [B, 1, V] of a prompt's last token, and its cache. Reads the source, if there is one."""
        return self.step(tokens, Cache(), source, last_only=True)

    def decode(self, token: torch.Tensor, cache: Cache) -> tuple[torch.Tensor, Cache]:
        """Logits [B, 1, V] of one more token [B, 1], and the longer cache."""
        return self.step(token, cache)


def build_model(
    spec: Model, *, device: str = "cpu", dtype: torch.dtype = torch.float32, attention: str = "sdpa"
) -> LanguageModel:
    """The model with fresh random weights.

    `attention` is "sdpa" (torch's fused kernel where it can express the layer) or "eager".

    Device "meta" allocates nothing.
    """
    whole = spec.adapted
    model = LanguageModel(whole, EAGER if attention == "eager" else FUSED)
    with default_dtype(dtype), torch.device("meta"), torch.no_grad():
        tape = BuildTape(model, "", None)
        # training runs the layers of multi-token prediction, which no other pass does
        phase: Phase = "train" if spec.mtp_depth else "forward"
        inputs = empty_inputs(spec, Request(phase, 1, 2 + spec.mtp_depth))
        whole.forward(**{name: Tensor(tape, value) for name, value in inputs.items()})
    return model if device == "meta" else _materialized(model, device)


def empty_inputs(spec: Model, request: Request) -> dict[str, torch.Tensor]:
    """Uninitialised input tensors of a pass, by the names of the model's arguments."""
    dtypes = {"ids": torch.int64, "features": None}
    return {
        name: torch.empty(given.shape, dtype=dtypes[given.kind])
        for name, given in spec.inputs(request).items()
    }


def example_inputs(
    spec: Model, batch_size: int, seq_len: int, source_len: int | None = None
) -> list[torch.Tensor]:
    """The inputs of a forward in the order of its arguments: ids [B, T], then the source if there is one."""
    return list(empty_inputs(spec, Request("forward", batch_size, seq_len, source_len=source_len)).values())


def _given(**inputs: torch.Tensor | None) -> dict[str, torch.Tensor]:
    """The inputs without those that are None."""
    return {name: value for name, value in inputs.items() if value is not None}


def _materialized(model: LanguageModel, device: str) -> LanguageModel:
    """Allocate the weights on the device and initialise every leaf; ArchError where the CPU lacks memory."""
    if torch.device(device).type == "cpu":
        _require_memory(model)
    model.to_empty(device=device)
    for leaf in model.modules():
        reset = getattr(leaf, "reset_parameters", None)
        if reset is not None:
            reset()
    return model


def _require_memory(model: LanguageModel) -> None:
    """Raise ArchError where the weights are larger than the memory that is free."""
    needed = sum(weight.numel() * weight.element_size() for weight in model.parameters())
    available = available_memory()
    if available is not None and needed > available:
        raise ArchError(
            f"{needed / 2**30:,.1f} GiB of weights; this machine has {available / 2**30:,.1f} GiB available",
            'a smaller dtype or fewer n_layers; device "meta" allocates nothing',
        )


def set_expert_form(model: nn.Module, form: str) -> None:
    """Make every stack of experts in the model run as "grouped", "grouped_on_meta" or "gather"."""
    for module in model.modules():
        if isinstance(module, StackedLinear):
            module.form = form


def store_experts(model: nn.Module, distinct: int) -> None:
    """Let each mixture's experts share `distinct` matrices, to save memory. Called on the meta device."""
    for module in model.modules():
        if isinstance(module, StackedLinear):
            module.store(distinct)
