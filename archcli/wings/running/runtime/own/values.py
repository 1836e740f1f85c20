"""Values of fake tensors that no weight decides: masks, and conditions of control flow.

A fake tensor has a shape and no values. A causal mask, positions and padding follow from sizes and from the
ids that are given, and not from weights: an operation whose inputs all have known values is computed for real
beside the fake run. So the pairs of a mask can be counted, and `if mask.all():` has an answer. What a
weight or a floating input decides stays unknown.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import (
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
    unset_fake_temporarily,
)
from torch.utils._pytree import tree_leaves, tree_map_only
from torch.utils.weak import WeakIdKeyDictionary

from archcli.wings.running.runtime.own.stand_ins import MOST_ELEMENTS, STAND_INS, fake_of, without_cache

FINDS_VALUES = {"_to_sparse", *(f"_to_sparse_{form}" for form in ("csr", "csc", "bsr", "bsc")), "_coalesce"}
"""Operations that find values other than zero, of which fake tensors make none, and do not say so."""
ONE_DTYPE = {"mm", "addmm", "mv", "addmv"}
"""Products that fake tensors allow of two dtypes, and real ones do not."""
ASKS_VALUES = (torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape)


class KnownValues:
    """The values of fake tensors that no weight decides."""

    def __init__(self, mode: FakeTensorMode | None) -> None:
        self.mode = mode
        self._known: Any = WeakIdKeyDictionary()

    def remember(self, fake: Any, value: torch.Tensor) -> None:
        """The values of a fake tensor, unless they are too many."""
        if value.numel() <= MOST_ELEMENTS:
            self._known[fake] = value

    def of(self, tensor: Any) -> torch.Tensor | None:
        """The values of a tensor: of a fake one those that were followed."""
        if type(tensor) is FakeTensor:
            value: torch.Tensor | None = self._known.get(tensor)
            return value
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
        if self.mode is None:
            return func(*args, **kwargs)
        if type(func) is not torch._ops.OpOverload:
            return without_cache(self, func, args, kwargs)
        if func.is_view and type(args[0]) is torch.Tensor and args[0].device.type == "cpu":
            with unset_fake_temporarily():  # of a real tensor a fake mode would make a copy first
                return func(*args, **kwargs)
        stand_in = STAND_INS.get(func)
        return (stand_in or KnownValues.run_or_answer)(self, func, args, kwargs)

    def run_or_answer(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Run an operation on fake tensors, or give what it finds in known values."""
        _require_one_dtype(func, args)
        sparse = any(x.layout is torch.sparse_coo for x in _tensors(args))
        finds = func.overloadpacket.__name__ in FINDS_VALUES or (sparse and func.is_view)
        asks = finds or any(tag in func.tags for tag in ASKS_VALUES)
        if asks and (real := self._real(func, args, kwargs)) is not None:
            return self.as_fake(real[0])
        if finds:
            raise DynamicOutputShapeException(func)
        out = func(*args, **kwargs)
        if not asks:
            self.follow(func, args, kwargs, out)
        return out

    def follow(self, func: Any, args: Any, kwargs: Any, out: Any) -> None:
        """Compute and remember the values of an operation's results from known inputs."""
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

    def as_fake(self, real: Any) -> Any:
        """Fakes of real tensors, whose values are remembered."""

        def fake(value: torch.Tensor) -> Any:
            faked = fake_of(value, self.mode)
            self.remember(faked, value)
            return faked

        return tree_map_only(torch.Tensor, fake, real)


def _written(func: Any, args: Any, kwargs: Any) -> list[Any]:
    """The tensors that an operation writes into."""
    arguments = {**kwargs, **{at.name: x for at, x in zip(func._schema.arguments, args, strict=False)}}
    writes = [
        at.name for at in func._schema.arguments if at.alias_info is not None and at.alias_info.is_write
    ]
    return _tensors([arguments.get(name) for name in writes])


def _require_one_dtype(func: Any, args: Any) -> None:
    """Raise what torch raises of real tensors where a product has two dtypes."""
    if func.overloadpacket.__name__ in ONE_DTYPE:
        dtypes = dict.fromkeys(x.dtype for x in args if torch.is_tensor(x))
        if len(dtypes) > 1:
            raise RuntimeError(f"a product needs one dtype, and has {' and '.join(map(str, dtypes))}")


def _tensors(tree: Any) -> list[Any]:
    return [x for x in tree_leaves(tree) if torch.is_tensor(x)]
