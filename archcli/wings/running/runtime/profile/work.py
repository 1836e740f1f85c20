"""The timed work: a model on a device, its inputs, and one pass as a function.

What is computed is exactly the counted pass. Training is forward and backward of the model without optimizer:
from the loss where the model trains on targets, else from a given gradient of its outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch.utils._pytree import tree_leaves

from archcli.errors import ArchError
from archcli.graph import tree_map
from archcli.modules import Model
from archcli.modules.models.model import inferring
from archcli.modules.spec.forms import with_forms
from archcli.modules.spec.request import Request
from archcli.wings.running.runtime.dtypes import DTYPES
from archcli.wings.running.runtime.model.build import (
    Cache,
    LanguageModel,
    build_model,
    empty_inputs,
    store_experts,
)
from archcli.wings.running.runtime.model.random_data import BLOCK, fill, random_inputs, tile

SEED = 0
Inputs = Mapping[str, Any]
"""Tensors by the names of the model's arguments, and media of the prompt."""


@dataclass(frozen=True, slots=True)
class BuildSettings:
    """How a model is built for timing: dtype, device, attention kernels.

    `distinct_experts` matrices of each mixture are stored, fewer than it has where not all fit.
    """

    dtype: str = "fp32"
    device: str = "cpu"
    attention: str = "sdpa"
    distinct_experts: int | None = None


class Work(NamedTuple):
    """The model, and one pass over it."""

    model: LanguageModel
    step: Callable[[], Any]


def prepare(spec: Model, request: Request, settings: BuildSettings | None = None) -> Work:
    """Allocate and fill the model and its inputs on the device."""
    settings, request = settings or BuildSettings(), request.resolved()
    train, dtype = request.phase == "train", DTYPES[settings.dtype]
    generator = torch.Generator().manual_seed(SEED)
    spec = with_forms(spec if train else inferring(spec), request)
    towers = request.in_prompt
    read = replace(request, phase="forward") if request.media and spec.encoders and not towers else None
    skeleton = build_model(
        spec, device="meta", dtype=dtype, attention=settings.attention, towers=towers, read=read
    ).train(train)
    # the order of drawing is that of ranks/work.py, so that ranks hold parts of the same numbers
    drawn = random_inputs(spec, request, dtype, generator)
    inputs = tree_map(lambda x: x.to(settings.device), torch.Tensor, drawn)
    cache = _filled_cache(skeleton, request, settings.device, generator)
    gradients = _output_gradients(skeleton, request, settings.device, generator) if train else []
    if settings.distinct_experts is not None:
        store_experts(skeleton, settings.distinct_experts)
    model = skeleton.to_empty(device=settings.device)
    fill(model, generator)
    if request.in_prompt:
        from archcli.wings.running.runtime.model.media import (  # of models with towers alone
            CheckedMedia,
            given_media,
        )

        inputs["media"] = CheckedMedia(given_media(model, inputs["tokens"], inputs["media"]))
    return Work(model, pass_of(model, request, inputs, cache, gradients))


def pass_of(
    model: LanguageModel,
    request: Request,
    inputs: Inputs,
    cache: Cache,
    gradients: Sequence[torch.Tensor],
) -> Callable[[], Any]:
    """One pass over the model on these inputs; training begins its backward with the outputs' gradients."""
    if request.phase == "train":
        return _training(model, inputs, gradients)
    if request.caches:
        return _through_cache(model, inputs, cache, last_only=request.last_only)
    return _forward(model, inputs)


def _forward(model: LanguageModel, inputs: Inputs) -> Callable[[], Any]:
    def step() -> Any:
        # inference_mode would hide from the census what composite operations are made of
        with torch.no_grad():
            return model(**inputs)

    return step


def _through_cache(
    model: LanguageModel, inputs: Inputs, cache: Cache, *, last_only: bool
) -> Callable[[], Any]:
    def step() -> Any:
        with torch.no_grad():
            return model.step(cache=cache, last_only=last_only, **inputs)

    return step


def _training(model: LanguageModel, inputs: Inputs, gradients: Sequence[torch.Tensor]) -> Callable[[], Any]:
    def step() -> None:
        # to None: a backward that adds to old gradients would run additions that nobody counts
        model.zero_grad(set_to_none=True)
        # None for a loss, a scalar, whose gradient is 1
        torch.autograd.backward(tree_leaves(model(**inputs)), gradients or None)

    return step


def _output_gradients(
    skeleton: LanguageModel, request: Request, device: str, generator: torch.Generator
) -> list[torch.Tensor]:
    """A random gradient of each output (logits, hidden states, classes); none of a loss."""
    if skeleton.spec.trains_on_targets:
        return []
    with torch.device("meta"), torch.no_grad():
        outputs = tree_leaves(skeleton(**empty_inputs(skeleton.spec, request)))
    return [torch.randn(output.shape, generator=generator).to(device, output.dtype) for output in outputs]


def _filled_cache(
    skeleton: LanguageModel, request: Request, device: str, generator: torch.Generator
) -> Cache:
    """A cache of `past` tokens with random entries, its shapes found by a run on meta."""
    if not request.continues:
        return Cache()
    with torch.device("meta"), torch.no_grad():
        _, cache = skeleton.prefill(**empty_inputs(skeleton.spec, request.filling()))
    block = torch.randn(BLOCK, generator=generator)
    filled: Cache = tree_map(
        lambda x: tile(torch.empty(x.shape, dtype=x.dtype, device=device), block), torch.Tensor, cache
    )
    return filled


def check_device(device: str) -> None:
    """Raise ArchError for an unknown or missing device."""
    kind, _, index = device.partition(":")
    if device != "cpu" and (kind != "cuda" or (index and not index.isdecimal()) or device.endswith(":")):
        raise ArchError(f"device {device!r} is none of cpu, cuda, cuda:N")
    if kind == "cuda" and int(index or 0) >= torch.cuda.device_count():
        raise ArchError(
            f"{device} is not on this machine, which has {torch.cuda.device_count()} CUDA devices",
            "try --device cpu",
        )


def free_memory(device: str) -> int:
    """Bytes that the CUDA device has left."""
    free: int = torch.cuda.mem_get_info(torch.device(device))[0]
    return free
