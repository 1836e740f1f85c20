"""What a module by others executes and holds on this CPU, by nothing of archcli's: see foreign.py.

FLOPs are by torch's formulas, and by hand for what it has none for, with real numbers where a group's size is
one. Attention runs step by step, so that every product is seen; a convolution's gradients are as large as its
forward each, where torch leaves groups out. Storages are all that the pass makes, beside all tensors that the
module and its inputs reach.
"""

from __future__ import annotations

import gc
import math
import random
from collections.abc import Callable, Iterator
from itertools import pairwise
from types import FunctionType, ModuleType
from typing import Any

import torch
from torch.nn.attention import SDPBackend, flex_attention, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode, is_traceable_wrapper_subclass_type
from torch.utils.flop_counter import flop_registry

from archcli.wings.running.runtime.memory.peak import LiveStorages
from archcli.wings.running.runtime.memory.storages import address, stored_in
from archcli.wings.running.runtime.own.run import loss_of


def _grouped(a: Any, b: Any, offs: Any = None, *_: Any, **__: Any) -> int:
    """Each group's rows by its matrix."""
    ends = [0, *offs.tolist()] if offs is not None else [0, a.shape[-2]]
    sizes = [end - begin for begin, end in pairwise(ends)]
    if a.dim() == 2 and b.dim() == 3:  # rows are grouped
        return sum(2 * size * b.shape[1] * b.shape[2] for size in sizes)
    if a.dim() == b.dim() == 2:  # what is summed over is grouped
        return sum(2 * size * a.shape[0] * b.shape[1] for size in sizes)
    return sum(2 * size * a.shape[1] * a.shape[2] for size in sizes)


def _convolution_backward(grad: Any, x: Any, weight: Any, *args: Any) -> int:
    transposed, asked = args[4], args[7]
    places = math.prod(x.shape[2:]) if transposed else math.prod(grad.shape[2:])
    return (asked[0] + asked[1]) * 2 * x.shape[0] * places * math.prod(weight.shape)


def _lstm(x: Any, w: Any, h: Any, *_: Any, **__: Any) -> int:
    return 2 * x.shape[0] * x.shape[1] * (w.shape[0] * w.shape[1] + h.shape[0] * h.shape[1])


def _trilinear(a: Any, b: Any, c: Any, *_: Any, **__: Any) -> int:
    """Of nn.Bilinear's forward: batch, both inputs, and one output at a time."""
    return 3 * a.shape[0] * b.shape[-2] * b.shape[-1] if c.dim() > 1 else 0


def _pairs(a: Any, b: Any, *_: Any, **__: Any) -> int:
    return 2 * math.prod(a.shape[:-1]) * b.shape[-2] * a.shape[-1]


def _by_values(sparse: Any, dense: Any) -> int:
    return 2 * sparse.coalesce().values().numel() * dense.shape[-1]


def _packed_conv(x: Any, packed: Any, *_: Any) -> int:
    """Of the sizes of the convolution, as torch's documentation of Conv2d has it."""
    weight = packed.unpack()[0]
    sizes = zip(x.shape[2:], packed.padding(), weight.shape[2:], packed.stride(), strict=True)
    places = math.prod((size + 2 * pad - kernel) // step + 1 for size, pad, kernel, step in sizes)
    return 2 * x.shape[0] * places * math.prod(weight.shape)


BY_HAND: dict[str, Callable[..., int]] = {
    "aten::_grouped_mm": _grouped,
    "aten::convolution_backward": _convolution_backward,
    "aten::mkldnn_rnn_layer": _lstm,
    "aten::mkldnn_rnn_layer_backward": lambda *args: 2 * _lstm(*args),
    "aten::linear": lambda x, w, *_: 2 * x.numel() * w.shape[0],
    "aten::matmul": lambda a, b: 2 * a.numel() * b.shape[-1],
    "aten::mv": lambda a, _: 2 * a.numel(),
    "aten::dot": lambda a, _: 2 * a.numel(),
    "aten::vdot": lambda a, _: 2 * a.numel(),
    "quantized::conv2d": _packed_conv,
    "quantized::conv2d_relu": _packed_conv,
    "quantized::linear": lambda x, packed, *_: 2 * x.numel() * packed.unpack()[0].shape[0],
    "aten::_cdist_forward": _pairs,
    "aten::_euclidean_dist": _pairs,
    "aten::_cdist_backward": lambda _, a, b, *__: _pairs(a, b),
    "aten::_sparse_addmm": lambda _, a, b, **__: _by_values(a, b),
    "quantized::linear_dynamic": lambda x, packed, *_: 2 * x.numel() * packed.unpack()[0].shape[0],
}


class Counted(TorchDispatchMode):
    """FLOPs of the products that run, and the names of those that were counted by hand."""

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()
        self.flops, self.by_hand = 0, set[str]()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation and count it."""
        if any(is_traceable_wrapper_subclass_type(kind) for kind in types):
            return NotImplemented
        out, packet = func(*args, **(kwargs or {})), vars(func).get("_overloadpacket", func)
        name = f"{func.namespace}::{packet.__name__}"
        tensors = [x for x in args if torch.is_tensor(x)]
        if name in BY_HAND:
            self.flops += BY_HAND[name](*args, **(kwargs or {}))
            self.by_hand.add(packet.__name__)
        elif packet in flop_registry and any(x.layout is torch.sparse_coo for x in tensors):
            self.flops += _by_values(*tensors[-2:])
            self.by_hand.add(packet.__name__)
        elif packet in flop_registry:
            self.flops += flop_registry[packet](*args, **(kwargs or {}), out_val=out)
        return out


def real_pass(module: Any, inputs: Any, phase: str, watch: Any) -> None:
    """One pass on real tensors, watched."""
    args, kwargs = ((), inputs) if isinstance(inputs, dict) else (inputs, {})
    module.train(phase == "train")
    without_gradients(module)
    torch.backends.mha.set_fastpath_enabled(False)
    # nothing can watch what is compiled
    vars(flex_attention)["_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG"] = True
    seed()
    with torch.set_grad_enabled(phase == "train"), watch:
        out = module(*args, **kwargs)
        if phase == "train":
            loss = loss_of(out)
            del out
            loss.backward()
    without_gradients(module)


def without_gradients(module: Any) -> None:
    """Let no tensor that the module reaches have a gradient."""
    for tensor in reached([module]):
        if tensor.is_leaf:
            tensor.grad = None


def seed() -> None:
    """Begin all random numbers anew."""
    torch.manual_seed(0)
    random.seed(0)
    try:
        import numpy as np
    except ImportError:
        return
    np.random.seed(0)  # noqa: NPY002 - the one that models use


def real_flops(module: Any, inputs: Any, phase: str) -> tuple[int, set[str]]:
    """(FLOPs of a pass, what was counted by hand), attention step by step."""
    counted = Counted()
    with sdpa_kernel(SDPBackend.MATH):
        real_pass(module, inputs, phase, counted)
    return counted.flops, counted.by_hand


def real_peak(module: Any, inputs: Any, phase: str) -> int:
    """Bytes of all storages that live at once, with those that are there before."""
    there = list(reached([module, inputs]))
    held = {address(x): x.untyped_storage().nbytes() for x in stored_in(there)}
    live = LiveStorages(there)
    real_pass(module, inputs, phase, live)
    return live.peak.bytes + sum(held.values())


def reached(things: list[Any]) -> Iterator[torch.Tensor]:
    """The tensors that objects lead to, however they hold them."""
    waiting, seen = list(things), set[int]()
    while waiting:
        thing = waiting.pop()
        if id(thing) in seen or isinstance(thing, type | ModuleType):
            continue
        seen.add(id(thing))
        if isinstance(thing, torch.Tensor):
            yield thing
        elif isinstance(thing, FunctionType):
            waiting += [cell.cell_contents for cell in thing.__closure__ or () if cell_is_filled(cell)]
        else:
            waiting += gc.get_referents(thing)


def cell_is_filled(cell: Any) -> bool:
    """Whether a closure's cell has a content yet."""
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False
