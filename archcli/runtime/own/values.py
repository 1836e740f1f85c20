"""Values beside fake tensors: what masks hold, and what control flow asks, where no weight decides it.

A fake tensor has a shape and no values. A causal mask, positions and padding follow from sizes and from the
ids that are given, and not from weights: an operation whose inputs all have known values is computed for real
beside the fake run. So the pairs of a mask can be counted, and `if mask.all():` has an answer. What a
weight or a floating input decides stays unknown.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, unset_fake_temporarily
from torch.utils._pytree import tree_leaves, tree_map_only
from torch.utils.weak import WeakIdKeyDictionary

MOST_ELEMENTS = 2**24
"""The largest tensor whose values are followed: the mask of 4,096 tokens."""
ASKS_VALUES = (torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape)


class KnownValues:
    """The values of fake tensors that no weight decides."""

    def __init__(self, mode: FakeTensorMode | None) -> None:
        self._mode = mode
        self._known: Any = WeakIdKeyDictionary()

    def remember(self, fake: Any, value: torch.Tensor) -> None:
        """The values of a fake tensor, unless they are too many."""
        if value.numel() <= MOST_ELEMENTS:
            self._known[fake] = value

    def of(self, tensor: Any) -> torch.Tensor | None:
        """The values of a tensor: its own where it is real, those that are followed where it is fake."""
        if type(tensor) is FakeTensor:
            found: torch.Tensor | None = self._known.get(tensor)
            return found
        return tensor if tensor.device.type != "meta" else None

    def allowed(self, mask: Any) -> tuple[int, int] | None:
        """(pairs that a mask allows, of how many), None where its values are not known."""
        values = self.of(mask)
        if values is None:
            return None
        with unset_fake_temporarily(), torch.no_grad():
            allows = values if values.dtype == torch.bool else values > torch.finfo(values.dtype).min / 2
            return int(allows.sum()), allows.numel()

    def run(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Run an operation, on values too where all are known."""
        if self._mode is None:
            return func(*args, **kwargs)
        if type(func) is not torch._ops.OpOverload:
            return self._uncached(func, args, kwargs)
        if func.is_view and type(args[0]) is torch.Tensor and args[0].device.type == "cpu":
            with unset_fake_temporarily():  # of a real tensor a fake mode would make a copy first
                return func(*args, **kwargs)
        if func is torch.ops.aten.view.default and 1 in args[0].shape:
            return self._viewed(func, args)
        if func is torch.ops.aten.index.Tensor:
            args = (args[0], self._places(args[1]))
        asks = any(tag in func.tags for tag in ASKS_VALUES)
        if func is torch.ops.aten.mkldnn_rnn_layer.default:
            return _with_workspace(func(*args, **kwargs), args)
        if func is torch.ops.aten.mkldnn_rnn_layer_backward.default:
            out = func(*args, **kwargs)
            # fake tensors give both biases one gradient, the kernel makes two
            return (*out[:4], torch.empty_like(out[4]), *out[5:])
        if func is torch.ops.aten._pack_padded_sequence.default:
            return self._packed(func, args, kwargs)
        if asks and (real := self._real(func, args, kwargs)) is not None:
            return self._as_fake(real[0])
        out = func(*args, **kwargs)
        if not asks:
            self._follow(func, args, kwargs, out)
        return out

    def _uncached(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Run an operation on packed weights, which cannot be compared, as a cache of results does."""
        mode: Any = self._mode
        before, mode.cache_enabled = mode.cache_enabled, False
        try:
            return func(*args, **kwargs)
        finally:
            mode.cache_enabled = before

    def _viewed(self, func: Any, args: Any) -> Any:
        """A view with the strides of real ones: of sizes of 1 fake tensors have others.

        By them a convolution chooses whether channels come last.
        """
        x, shape = args
        with unset_fake_temporarily():
            form = torch.empty_strided(x.shape, x.stride(), device="meta").view(shape)
        out = torch.ops.aten.as_strided.default(x, form.shape, form.stride(), x.storage_offset())
        self._follow(func, args, {}, out)
        return out

    def _places(self, indices: Any) -> Any:
        """Indices with known masks as the places that they are true at, whose number is a shape then."""
        places: list[Any] = []
        for index in indices:
            known = self.of(index) if torch.is_tensor(index) and index.dtype == torch.bool else None
            if known is None:
                places.append(index)
                continue
            with unset_fake_temporarily():
                real = known.nonzero(as_tuple=True)
            places += [self._as_fake(place) for place in real]
        return places

    def _packed(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Pack sequences whose lengths are known and their numbers are not."""
        x, lengths, *rest = args
        known = self.of(lengths)
        if known is None or x.numel() > MOST_ELEMENTS:
            return func(*args, **kwargs)
        with unset_fake_temporarily(), torch.no_grad():
            data, sizes = func(torch.zeros(x.shape, dtype=x.dtype), known, *rest, **kwargs)
        mode: Any = self._mode
        return mode.from_tensor(data), sizes  # recurrent layers read the sizes' values, of a real tensor alone

    def _follow(self, func: Any, args: Any, kwargs: Any, out: Any) -> None:
        real = self._real(func, args, kwargs)
        if real is None:
            for tensor in _written(func, args, kwargs):
                self._forget(tensor)
            return
        for fake, value in zip(_tensors(out), _tensors(real[0]), strict=True):
            self.remember(fake, value)

    def _forget(self, tensor: Any) -> None:
        """Values that were overwritten by unknown ones, with all views of them."""
        value = self._known.get(tensor) if type(tensor) is FakeTensor else None
        if value is None:
            return
        storage = value.untyped_storage()._cdata
        for key in [key for key, x in self._known.items() if x.untyped_storage()._cdata == storage]:
            del self._known[key]

    def _real(self, func: Any, args: Any, kwargs: Any) -> tuple[Any] | None:
        """The result of an operation on values, in a tuple; None where one of them is not known."""
        if torch.Tag.nondeterministic_seeded in func.tags:
            return None
        tensors = _tensors((args, kwargs))
        values = [self.of(x) for x in tensors]
        if any(x is None for x in values) or not self._is_small(func, args, tensors):
            return None
        with unset_fake_temporarily(), torch.no_grad():
            arguments = tree_map_only(torch.Tensor, self.of, (args, kwargs))
            device = {"device": torch.device("cpu")} if kwargs.get("device") is not None else {}
            return (func(*arguments[0], **{**arguments[1], **device}),)

    def _is_small(self, func: Any, args: Any, tensors: list[Any]) -> bool:
        """Whether to compute for real: what makes tensors of sizes, and small ones of others."""
        if tensors:
            return all(x.numel() <= MOST_ELEMENTS for x in tensors)
        sizes = [x for x in tree_leaves(args) if type(x) is int]
        bound = 1
        for size in sizes:
            bound *= max(abs(size), 1)
        return bound <= MOST_ELEMENTS * max(len(sizes), 1) and "empty" not in func.overloadpacket.__name__

    def _as_fake(self, real: Any) -> Any:
        mode: Any = self._mode

        def fake(value: torch.Tensor) -> Any:
            made = mode.from_tensor(value)
            self.remember(made, value)
            return made

        return tree_map_only(torch.Tensor, fake, real)


def _written(func: Any, args: Any, kwargs: Any) -> list[Any]:
    """The tensors that an operation writes into."""
    given = {**kwargs, **{at.name: x for at, x in zip(func._schema.arguments, args, strict=False)}}
    writes = [at.name for at in func._schema.arguments if at.alias_info is not None and at.alias_info.is_write]
    return _tensors([given.get(name) for name in writes])


def _tensors(tree: Any) -> list[Any]:
    return [x for x in tree_leaves(tree) if torch.is_tensor(x)]


MOST_PROBED = 10**10
"""Multiply-adds of the largest recurrent kernel that runs for the size of its workspace: a second or two."""


def _with_workspace(out: Any, args: Any) -> Any:
    """The outputs of a recurrent kernel of the CPU with what it keeps for its backward.

    How much that is, the library oneDNN alone knows; so the kernel runs once on zeros. Fewer steps of a long
    sequence do, as it grows by each.
    """
    if not args[-1]:  # it does not train
        return out
    shapes = tuple(tuple(x.shape) for x in args[:7])
    steps, batch = shapes[0][:2]
    most = max(MOST_PROBED // (batch * sum(math.prod(shape) for shape in shapes[1:3])), 2)
    size = _workspace(shapes, args[0].dtype, args[7:], min(steps, most))
    if steps > most:
        half = most // 2
        each = (size - _workspace(shapes, args[0].dtype, args[7:], half)) / (most - half)
        size += round(each * (steps - most))
    return (*out[:3], torch.empty(size, dtype=torch.uint8))


def _workspace(shapes: Any, dtype: torch.dtype, options: Any, steps: int) -> int:
    """Bytes of the workspace of one run for real, of so many steps."""
    shapes = ((steps, *shapes[0][1:]), *shapes[1:])
    with unset_fake_temporarily(), torch.enable_grad():
        given = [torch.zeros(shape, dtype=dtype) for shape in shapes]
        made = torch.ops.aten.mkldnn_rnn_layer.default(*given, *options)
        return int(made[3].numel())
