"""Run any module on fake tensors of a CPU: weights without values, whatever device they were built on.

On meta the masks of several of transformers' models raise, and attention is taken apart; fake tensors of a
CPU take the path that real ones take. The module itself is left as it was found.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_map_only

from archcli.runtime.memory.cuda_on_meta import grouped_products_on_meta
from archcli.runtime.own.values import KnownValues

FOLLOWED = 2**20
"""Elements of the largest floating buffer whose values are followed: a table of frequencies is one."""


@contextmanager
def without_values(module: nn.Module, inputs: Any) -> Iterator[tuple[Any, KnownValues]]:
    """Give the module fake weights and buffers within the block; yields fake inputs, and known values.

    Whole numbers that are given, such as ids and masks, have known values.
    """
    with ExitStack() as stack:
        stack.enter_context(grouped_products_on_meta())
        mode = FakeTensorMode(allow_non_fake_inputs=True)
        values = KnownValues(mode)
        faked = _faking(mode, values)
        stack.enter_context(_replaced(module, faked))
        stack.enter_context(_as_on_real_tensors())
        given = tree_map_only(torch.Tensor, faked, inputs)  # outside of the mode, where values can be copied
        stack.enter_context(mode)
        yield given, values


def _faking(mode: FakeTensorMode, values: KnownValues) -> Callable[[Any], Any]:
    """A function that gives the fake of a tensor, the same for the same tensor."""
    made: dict[int, tuple[Any, Any]] = {}

    def faked(tensor: Any) -> Any:
        if id(tensor) not in made:
            with mode:
                fake: Any = torch.empty_strided(
                    tensor.size(), tensor.stride(), dtype=tensor.dtype, device="cpu"
                )
            trains = isinstance(tensor, nn.Parameter)
            fake = nn.Parameter(fake, tensor.requires_grad) if trains else _as_differentiable(fake, tensor)
            if not trains and tensor.device.type == "cpu" and _is_followed(tensor):
                values.remember(fake, tensor.detach().clone())
            vars(fake).update(vars(tensor))
            made[id(tensor)] = (tensor, fake)  # the tensor is held, so that its id is not used again
        return made[id(tensor)][1]

    return faked


def _as_differentiable(fake: Any, tensor: torch.Tensor) -> Any:
    return fake.requires_grad_() if tensor.requires_grad and tensor.is_leaf else fake


def _is_followed(tensor: torch.Tensor) -> bool:
    return not tensor.is_floating_point() or tensor.numel() <= FOLLOWED


@contextmanager
def _replaced(module: nn.Module, faked: Callable[[Any], Any]) -> Iterator[None]:
    """Let every tensor that a module holds, registered or not, be its fake within the block."""
    before: list[tuple[dict[str, Any], dict[str, Any]]] = []
    for child in module.modules():
        for held in (vars(child), child._parameters, child._buffers):
            changed = {name: value for name, value in held.items() if _holds_tensors(value)}
            before.append((held, changed))
    try:
        for held, changed in before:
            held.update({name: tree_map_only(torch.Tensor, faked, value) for name, value in changed.items()})
        yield
    finally:
        for held, changed in before:
            held.update(changed)


def _holds_tensors(value: Any) -> bool:
    """Whether it is a tensor, or a list or tuple of them as an LSTM keeps its weights."""
    if type(value) in {list, tuple}:
        return bool(value) and all(torch.is_tensor(x) for x in value)
    return torch.is_tensor(value)


@contextmanager
def _as_on_real_tensors() -> Iterator[None]:
    """Let transformers build masks as for real tensors; it asks whether a tensor is fake, and traces then."""
    utils = sys.modules.get("transformers.utils.import_utils")
    if utils is None or "is_fake_tensor" not in vars(utils):
        yield
        return
    before = vars(utils)["is_fake_tensor"]
    vars(utils)["is_fake_tensor"] = lambda _: False
    try:
        yield
    finally:
        vars(utils)["is_fake_tensor"] = before
