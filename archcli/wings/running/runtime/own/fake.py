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
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._python_dispatch import is_traceable_wrapper_subclass
from torch.utils._pytree import tree_leaves, tree_map_only

from archcli.wings.running.runtime.memory.cuda_on_meta import grouped_products_on_meta
from archcli.wings.running.runtime.memory.storages import address, tensors_in
from archcli.wings.running.runtime.own.stand_ins import fake_of
from archcli.wings.running.runtime.own.values import KnownValues

COLLECTIONS = {list, tuple, dict}
TORCHS = {"_parameters", "_buffers", "_modules"}
"""Attributes of a module whose dicts torch fills."""
FOLLOWED = 2**20
"""Elements of the largest floating buffer whose values are followed: a table of frequencies is one."""


@contextmanager
def without_values(module: nn.Module, inputs: Any) -> Iterator[tuple[Any, KnownValues]]:
    """Give the module fake weights and buffers within the block; yields fake inputs, and known values.

    Whole numbers that are given, such as ids and masks, have known values.
    """
    with ExitStack() as stack:
        stack.enter_context(grouped_products_on_meta())
        # nested tensors ask for symbols of their lengths; no other size is one
        sizes = ShapeEnv(allow_scalar_outputs=False, allow_dynamic_output_shape_ops=False)
        mode = FakeTensorMode(allow_non_fake_inputs=True, shape_env=sizes, static_shapes=True)
        values = KnownValues(mode)
        faked = _faking(mode, values)
        stack.enter_context(_replaced(module, faked))
        stack.enter_context(_as_on_real_tensors())
        fakes = tree_map_only(torch.Tensor, faked, inputs)  # outside of the mode, where values can be copied
        stack.enter_context(mode)
        yield fakes, values


def _faking(mode: FakeTensorMode, values: KnownValues) -> Callable[[Any], Any]:
    """A function that gives the fake of a tensor, the same for the same tensor."""
    fake_of: dict[int, tuple[Any, Any]] = {}
    storages: dict[int, Any] = {}

    def faked(tensor: Any) -> Any:
        if id(tensor) not in fake_of:
            fake = _same_form(tensor, mode, storages)
            trains = isinstance(tensor, nn.Parameter)
            fake = nn.Parameter(fake, tensor.requires_grad) if trains else _as_differentiable(fake, tensor)
            if not trains and tensor.device.type == "cpu" and _is_followed(tensor):
                values.remember(fake, tensor.detach().clone())
            vars(fake).update(vars(tensor))
            fake_of[id(tensor)] = (tensor, fake)  # the tensor is held, so that its id is not used again
        return fake_of[id(tensor)][1]

    return faked


def _same_form(tensor: Any, mode: FakeTensorMode, storages: dict[int, Any]) -> Any:
    """A fake of the tensor's form in a fake of its storage, which views of one storage share."""
    if tensor.layout is not torch.strided or tensor.is_quantized or is_traceable_wrapper_subclass(tensor):
        return fake_of(tensor, mode)
    with mode, torch.no_grad():
        storage, size = tensor.untyped_storage(), tensor.element_size()
        if address(tensor) not in storages:
            storages[address(tensor)] = torch.empty(storage.nbytes(), dtype=torch.uint8, device="cpu")
        whole = storages[address(tensor)][: storage.nbytes() // size * size].view(tensor.dtype)
        return whole.as_strided(tensor.size(), tensor.stride(), tensor.storage_offset()).detach()


def _as_differentiable(fake: Any, tensor: torch.Tensor) -> Any:
    return fake.requires_grad_() if tensor.requires_grad and tensor.is_leaf else fake


def _is_followed(tensor: torch.Tensor) -> bool:
    return not tensor.is_floating_point() or tensor.numel() <= FOLLOWED


@contextmanager
def _replaced(module: nn.Module, faked: Callable[[Any], Any]) -> Iterator[None]:
    """Let every tensor that a module holds, registered or not, be its fake within the block."""
    before = [(held, _with_tensors(held)) for held in _holders(module)]
    try:
        for held, changed in before:
            held.update({name: tree_map_only(torch.Tensor, faked, value) for name, value in changed.items()})
        yield
    finally:
        for held, changed in before:
            held.update(changed)


def unregistered_tensors(module: nn.Module) -> list[torch.Tensor]:
    """Tensors of a module that are no parameters or buffers: in lists, dicts, and modules in these."""
    known = {id(x) for x in (*module.parameters(), *module.buffers())}
    tensors = {id(x): x for held in _holders(module) for x in tensors_in(_with_tensors(held))}
    return [x for key, x in tensors.items() if key not in known]


def _with_tensors(held: dict[str, Any]) -> dict[str, Any]:
    """The attributes that are tensors or collections of them."""
    return {name: value for name, value in held.items() if name not in TORCHS and _holds_tensors(value)}


def _holders(module: nn.Module) -> Iterator[dict[str, Any]]:
    """The dicts in which a module keeps tensors, and those of modules in plain lists."""
    waiting, seen = [module], {id(module)}
    while waiting:
        child = waiting.pop()
        yield from (vars(child), child._parameters, child._buffers)
        inner = [*child._modules.values(), *(x for value in vars(child).values() for x in _modules_in(value))]
        fresh = {id(x): x for x in inner if x is not None and id(x) not in seen}
        seen.update(fresh)
        waiting += fresh.values()


def _modules_in(value: Any) -> list[nn.Module]:
    """Modules within lists, tuples and dicts."""
    if type(value) not in COLLECTIONS:
        return []
    return [x for x in tree_leaves(value) if isinstance(x, nn.Module)]


def _holds_tensors(value: Any) -> bool:
    """Whether it is a tensor, or a collection of them as an LSTM keeps its weights."""
    if type(value) in COLLECTIONS:
        return any(torch.is_tensor(x) for x in tree_leaves(value))
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
