"""Values beside fake tensors: what masks hold, and what control flow asks, where no weight decides it.

A fake tensor has a shape and no values. A causal mask, positions and padding follow from sizes and from the
ids that are given, and not from weights: an operation whose inputs all have known values is computed for real
beside the fake run. So the pairs of a mask can be counted, and `if mask.all():` has an answer. What a
weight or a floating input decides stays unknown.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, unset_fake_temporarily
from torch.utils._pytree import tree_leaves, tree_map_only
from torch.utils.weak import WeakIdKeyDictionary

MOST_ELEMENTS = 2**24
"""The largest tensor whose values are followed: the mask of 4,096 tokens."""
ONE_DTYPE = {"mm", "addmm", "mv", "addmv"}
"""Products that fake tensors allow of two dtypes, and real ones do not."""
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
        _require_one_dtype(func, args)
        asks = any(tag in func.tags for tag in ASKS_VALUES)
        if asks and (real := self._real(func, args, kwargs)) is not None:
            return self._as_fake(real[0])
        out = func(*args, **kwargs)
        if not asks:
            self._follow(func, args, kwargs, out)
        return out

    def _follow(self, func: Any, args: Any, kwargs: Any, out: Any) -> None:
        real = self._real(func, args, kwargs)
        written = func._schema.is_mutable
        if real is None:
            for tensor in _tensors((args, out)) if written else ():
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


def _require_one_dtype(func: Any, args: Any) -> None:
    """Raise what torch raises of real tensors where a product has two dtypes."""
    if func.overloadpacket.__name__ in ONE_DTYPE:
        dtypes = dict.fromkeys(x.dtype for x in args if torch.is_tensor(x))
        if len(dtypes) > 1:
            raise RuntimeError(f"a product needs one dtype, and has {' and '.join(map(str, dtypes))}")


def _tensors(tree: Any) -> list[Any]:
    return [x for x in tree_leaves(tree) if torch.is_tensor(x)]
