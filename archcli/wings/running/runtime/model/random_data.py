"""Random inputs, targets and weights for a run without data or checkpoint.

Weights are copies of a block of random numbers: kernels take as long as with trained ones, and filling costs
no more than writing once.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from archcli.graph import tree_map
from archcli.modules import Model
from archcli.modules.spec.request import InputSpec, Request

BLOCK = 1_000_003  # a prime, so that no two rows of a matrix of round width are equal


def random_inputs(
    spec: Model, request: Request, dtype: torch.dtype, generator: torch.Generator
) -> dict[str, Any]:
    """What the pass reads, by the names of the model's arguments: tensors, and media of the prompt."""
    inputs: dict[str, Any] = tree_map(
        lambda read: random_input(read, dtype, generator), InputSpec, spec.reads(request)
    )
    if request.in_prompt:
        from archcli.wings.running.runtime.model.media import prompt_of  # of models with towers alone

        inputs["tokens"] = prompt_of(spec, inputs["tokens"], request.media)
    if "targets" in inputs:
        inputs["targets"] = random_targets(spec, request.batch_size, request.seq_len, generator)
    return inputs


def random_input(read: InputSpec, dtype: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    """Ids of the table's entries, or features."""
    if read.n_ids is None:
        return torch.randn(read.shape, generator=generator).to(dtype)
    return torch.randint(read.n_ids, read.shape, generator=generator)


def random_targets(spec: Any, batch_size: int, seq_len: int, generator: torch.Generator) -> torch.Tensor:
    """Target ids [B, T] in random order, as many in each cluster of an adaptive head as its shares say."""
    tokens, head = batch_size * seq_len, spec.head
    ranges = head.target_ranges(spec.vocab_size, tokens)
    ids = [torch.randint(low, high, (count,), generator=generator) for low, high, count in ranges]
    return torch.cat(ids)[torch.randperm(tokens, generator=generator)].view(batch_size, seq_len)


def fill(model: nn.Module, generator: torch.Generator) -> None:
    """Give every matrix small random numbers, every gain 1, everything else 0."""
    block = block_of_weights(generator)
    for name, parameter in model.named_parameters():
        if parameter.ndim > 1:
            tile(parameter.data, block)
        else:
            parameter.data.fill_(constant_of(name))
    for buffer in model.buffers():
        buffer.zero_()


def block_of_weights(generator: torch.Generator) -> torch.Tensor:
    """The block of small random numbers that matrices are copies of."""
    # 0.02 is GPT-2's initializer_range
    return torch.randn(BLOCK, generator=generator) * 0.02


def constant_of(name: str) -> float:
    """What every element of a parameter is that is no matrix: 1 of a gain, else 0."""
    return 1.0 if name.endswith("weight") else 0.0


def tile(tensor: torch.Tensor, block: torch.Tensor) -> torch.Tensor:
    """Fill a tensor with copies of the block, end to end."""
    block = block.to(tensor.device, tensor.dtype)
    # view, not reshape: reshape would copy a tensor that is not contiguous, and fill the copy
    for piece in tensor.view(-1).split(len(block)):
        piece.copy_(block[: len(piece)])
    return tensor
