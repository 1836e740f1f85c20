"""The work that is timed: a model with weights on the device, its inputs, and one pass of the asked phase as a function.

Weights are a tiled block of random numbers: kernels take as long as with trained ones, and filling costs no more than
writing once. What is computed is exactly the counted pass: training is forward and backward of the model, without
optimizer; from a given gradient of what the model answers, or from the loss where it trains on targets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from archcli.errors import ArchError
from archcli.graph import tree_map
from archcli.modules import Model, settings
from archcli.modules.model import inferring
from archcli.runtime.model.build import Cache, LanguageModel, build_model, example_inputs, store_experts
from archcli.runtime.profile.targets import random_targets

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
BLOCK = 1_000_003  # a prime, so that no two rows of a matrix of round width are equal
SEED = 0


@dataclass(frozen=True, slots=True)
class Job:
    """What to run: `new` tokens after `past` cached ones, logits of the last alone or of all, and whether to go back again.

    `cached` runs through a cache, even an empty one. `source_len` is how many positions an encoder-decoder's encoder has.
    `distinct_experts` matrices are stored of each mixture, less than it has where not all fit.
    """

    batch_size: int
    new: int
    past: int = 0
    source_len: int | None = None
    cached: bool = False
    last_only: bool = False
    train: bool = False
    dtype: str = "fp32"
    device: str = "cpu"
    attention: str = "sdpa"
    distinct_experts: int | None = None


class Work(NamedTuple):
    """The model, and one pass over it."""

    model: LanguageModel
    step: Callable[[], Any]


def prepare(spec: Model, job: Job) -> Work:
    """Allocate and fill the model and its inputs on the device."""
    device, dtype = torch.device(job.device), DTYPES[job.dtype]
    generator = torch.Generator().manual_seed(SEED)
    spec = spec if job.train else inferring(spec)
    skeleton = build_model(spec, device="meta", dtype=dtype, attention=job.attention).train(job.train)
    inputs = [_random(like, spec, dtype, generator).to(device) for like in _inputs(spec, job, job.new)]
    cache = _filled_cache(skeleton, job, generator)
    to_the_loss = job.train and spec.trains_on_targets
    gradients = _gradients(skeleton, job, generator) if job.train and not to_the_loss else []
    if job.distinct_experts is not None:
        store_experts(skeleton, job.distinct_experts)
    model = skeleton.to_empty(device=device)
    fill(model, generator)
    if to_the_loss:
        return Work(
            model,
            _to_the_loss(model, inputs, random_targets(spec, job.batch_size, job.new, generator).to(device)),
        )
    if job.train:
        return Work(model, _training(model, inputs, gradients))
    return Work(
        model,
        _through_cache(model, inputs, cache, last_only=job.last_only)
        if job.cached
        else _forward(model, inputs),
    )


def _inputs(spec: Model, job: Job, length: int) -> list[torch.Tensor]:
    """So many tokens on meta, and the source where there is one."""
    with torch.device("meta"):
        return example_inputs(spec, job.batch_size, length, job.source_len)


def _random(like: torch.Tensor, spec: Model, dtype: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    """Ids that every table of the model has, or features."""
    if like.is_floating_point():
        return torch.randn(like.shape, generator=generator).to(dtype)
    return torch.randint(
        min(size for path, size in settings(spec) if path.endswith("vocab_size") and size),
        like.shape,
        generator=generator,
    )


def fill(model: nn.Module, generator: torch.Generator) -> None:
    """Give every matrix small random numbers, every gain 1, everything else 0."""
    block = torch.randn(BLOCK, generator=generator) * 0.02
    for name, parameter in model.named_parameters():
        if parameter.ndim > 1:
            _tile(parameter.data, block)
        else:
            parameter.data.fill_(1.0 if name.endswith("weight") else 0.0)
    for buffer in model.buffers():
        buffer.zero_()


def check_device(device: str) -> None:
    """Raises ArchError where the device is none, or is not here."""
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


def _forward(model: LanguageModel, inputs: Sequence[torch.Tensor]) -> Callable[[], Any]:
    def step() -> Any:
        with (
            torch.no_grad()
        ):  # inference_mode would hide from the census what composite operations are made of
            return model(*inputs)

    return step


def _through_cache(
    model: LanguageModel, inputs: Sequence[torch.Tensor], cache: Cache, *, last_only: bool
) -> Callable[[], Any]:
    tokens, *source = inputs

    def step() -> Any:
        with torch.no_grad():
            return model.step(tokens, cache, *source, last_only=last_only)

    return step


def _training(
    model: LanguageModel, inputs: Sequence[torch.Tensor], gradients: Sequence[torch.Tensor]
) -> Callable[[], Any]:
    def step() -> None:
        model.zero_grad(set_to_none=True)
        torch.autograd.backward(tree_leaves(model(*inputs)), gradients)

    return step


def _gradients(skeleton: LanguageModel, job: Job, generator: torch.Generator) -> list[torch.Tensor]:
    """A random gradient of everything the model answers: logits, hidden states, classes."""
    with torch.no_grad():
        answers = tree_leaves(skeleton(*_inputs(skeleton.spec, job, job.new)))
    return [torch.randn(answer.shape, generator=generator).to(job.device, answer.dtype) for answer in answers]


def _to_the_loss(
    model: LanguageModel, inputs: Sequence[torch.Tensor], targets: torch.Tensor
) -> Callable[[], Any]:
    def step() -> None:
        model.zero_grad(set_to_none=True)
        model(*inputs, targets=targets).backward()

    return step


def _filled_cache(skeleton: LanguageModel, job: Job, generator: torch.Generator) -> Cache:
    """The cache that `past` tokens leave behind, of the shapes a run on the meta device gives it, holding random entries."""
    if not job.past:
        return Cache()
    with torch.no_grad():
        _, cache = skeleton.prefill(*_inputs(skeleton.spec, job, job.past))
    block = torch.randn(BLOCK, generator=generator)
    filled: Cache = tree_map(
        lambda x: _tile(torch.empty_like(x, device=job.device), block), torch.Tensor, cache
    )
    return filled


def _tile(tensor: torch.Tensor, block: torch.Tensor) -> torch.Tensor:
    """Fill a tensor with copies of the block, end to end."""
    block = block.to(tensor.device, tensor.dtype)
    for piece in tensor.view(-1).split(len(block)):
        piece.copy_(block[: len(piece)])
    return tensor
