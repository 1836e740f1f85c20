"""The work that is timed: a model with weights on the device, its inputs, and one pass of the asked phase as a function.

Weights are a tiled block of random numbers: kernels take as long as with trained ones, and filling costs no more than
writing once. What is computed is exactly the counted pass: training is forward and backward of the model, without
optimizer; from a given gradient of the logits, or from the loss where the model trains on targets.

B batch, T new tokens, V vocab_size.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import nn

from archcli.errors import ArchError
from archcli.graph import tree_map
from archcli.modules import Decoder, substitute
from archcli.runtime.build import Cache, LanguageModel, build_model
from archcli.runtime.targets import random_targets

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
BLOCK = 1_000_003  # a prime, so that no two rows of a matrix of round width are equal
SEED = 0


@dataclass(frozen=True, slots=True)
class Job:
    """What to run: `new` tokens after `past` cached ones, logits of the last alone or of all, and whether to go back again.

    `cached` runs through a cache, even an empty one.
    """

    batch_size: int
    new: int
    past: int = 0
    cached: bool = False
    last_only: bool = False
    train: bool = False
    dtype: str = "fp32"
    device: str = "cpu"
    attention: str = "sdpa"


class Work(NamedTuple):
    """The model, and one pass over it."""

    model: LanguageModel
    step: Callable[[], Any]


def prepare(spec: Decoder, job: Job) -> Work:
    """Allocate and fill the model and its inputs on the device."""
    device, dtype = torch.device(job.device), DTYPES[job.dtype]
    generator = torch.Generator().manual_seed(SEED)
    tokens = torch.randint(spec.vocab_size, (job.batch_size, job.new), generator=generator).to(device)
    if spec.further_tokens and not job.train:
        spec = substitute(spec, {"mtp": None})  # what only training runs need not be there
    skeleton = build_model(spec, device="meta", dtype=dtype, attention=job.attention)
    cache = _filled_cache(skeleton, job, generator)
    model = skeleton.to_empty(device=device)
    fill(model, generator)
    if job.train and spec.trains_on_targets:
        return Work(model, _to_the_loss(model, tokens, random_targets(spec, job.batch_size, job.new, generator).to(device)))
    if job.train:
        gradient = torch.randn(job.batch_size, job.new, spec.vocab_size, generator=generator).to(device, dtype)
        return Work(model, _training(model, tokens, gradient))
    return Work(model, _through_cache(model, tokens, cache, last_only=job.last_only) if job.cached else _forward(model, tokens))


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
    if kind not in {"cpu", "cuda"} or (index and not index.isdecimal()) or device == "cpu:":
        raise ArchError(f"device {device!r} is none of cpu, cuda, cuda:N")
    if kind == "cuda" and int(index or 0) >= torch.cuda.device_count():
        raise ArchError(f"{device} is not on this machine, which has {torch.cuda.device_count()} CUDA devices", "try --device cpu")


def free_memory(device: str) -> int:
    """Bytes that the CUDA device has left."""
    free: int = torch.cuda.mem_get_info(torch.device(device))[0]
    return free


def _forward(model: LanguageModel, tokens: torch.Tensor) -> Callable[[], Any]:
    def step() -> Any:
        with torch.no_grad():  # inference_mode would hide from the census what composite operations are made of
            return model(tokens)

    return step


def _through_cache(model: LanguageModel, tokens: torch.Tensor, cache: Cache, *, last_only: bool) -> Callable[[], Any]:
    def step() -> Any:
        with torch.no_grad():
            return model.step(tokens, cache, last_only=last_only)

    return step


def _training(model: LanguageModel, tokens: torch.Tensor, gradient: torch.Tensor) -> Callable[[], Any]:
    def step() -> None:
        model.zero_grad(set_to_none=True)
        model(tokens).backward(gradient)

    return step


def _to_the_loss(model: LanguageModel, tokens: torch.Tensor, targets: torch.Tensor) -> Callable[[], Any]:
    def step() -> None:
        model.zero_grad(set_to_none=True)
        model(tokens, targets=targets).backward()

    return step


def _filled_cache(skeleton: LanguageModel, job: Job, generator: torch.Generator) -> Cache:
    """The cache that `past` tokens leave behind, of the shapes a run on the meta device gives it, holding random entries."""
    if not job.past:
        return Cache()
    with torch.no_grad():
        _, cache = skeleton.prefill(torch.empty((job.batch_size, job.past), dtype=torch.int64, device="meta"))
    block = torch.randn(BLOCK, generator=generator)
    filled: Cache = tree_map(lambda x: _tile(torch.empty_like(x, device=job.device), block), torch.Tensor, cache)
    return filled


def _tile(tensor: torch.Tensor, block: torch.Tensor) -> torch.Tensor:
    """Fill a tensor with copies of the block, end to end."""
    block = block.to(tensor.device, tensor.dtype)
    for piece in tensor.view(-1).split(len(block)):
        piece.copy_(block[: len(piece)])
    return tensor
