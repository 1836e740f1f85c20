"""Replacements for operations that differ between fake tensors and real tensors of a CPU.

torch's fake tensors have other strides after a view, no elements in sparse tensors, and no workspace of
recurrent kernels. The shapes of packed sequences and of indexing by a mask depend on values; these may be
known (lengths, masks) although other values are not.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily

from archcli.errors import ArchError

aten = torch.ops.aten
MOST_ELEMENTS = 2**24
"""The largest tensor with known values: the mask of 4,096 x 4,096 tokens."""
MOST_PROBED = 10**10
"""The most multiply-adds of a recurrent kernel that runs to measure its workspace: a second or two."""
ON_CPU = "--run-on cpu (run_on='cpu') runs it on real tensors"
IN_ROWS = {torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc}


class Followed(Protocol):
    """Known values of tensors in a run on fake tensors."""

    mode: Any

    def of(self, tensor: Any) -> torch.Tensor | None:
        """The values of a tensor; None if unknown."""

    def as_fake(self, real: Any) -> Any:
        """Fakes of real tensors, whose values are remembered."""

    def follow(self, func: Any, args: Any, kwargs: Any, out: Any) -> None:
        """Compute and remember the values of an operation's output."""

    def run_or_answer(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Run an operation on fake tensors, or compute its result from known values."""


def fake_of(tensor: Any, mode: Any) -> Any:
    """A fake with the storages of a tensor; of a sparse tensor torch makes one without elements."""
    if tensor.layout in IN_ROWS:
        raise ArchError("sparse matrices in compressed rows have no fakes", ON_CPU)
    if tensor.layout is not torch.sparse_coo:
        return mode.from_tensor(tensor.detach())
    with unset_fake_temporarily():
        parts, coalesced = [tensor._indices(), tensor._values().detach()], tensor.is_coalesced()
    fakes: Any = [mode.from_tensor(part) for part in parts]
    with mode, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.sparse_coo_tensor(fakes[0], fakes[1], tensor.shape, is_coalesced=coalesced)


def without_cache(values: Followed, func: Any, args: Any, kwargs: Any) -> Any:
    """Run an operation on packed weights without the cache of fakes, which cannot compare them."""
    mode: Any = values.mode
    before, mode.cache_enabled = mode.cache_enabled, False
    try:
        return func(*args, **kwargs)
    finally:
        mode.cache_enabled = before


def _view(values: Followed, func: Any, args: Any, _: Any) -> Any:
    """A view with the strides of a real one, which differ in axes of size 1.

    A convolution chooses the channels-last layout by strides.
    """
    x, shape = args
    if 1 not in x.shape:
        out = func(x, shape)
    else:
        with unset_fake_temporarily():
            form = torch.empty_strided(x.shape, x.stride(), device="meta").view(shape)
        out = aten.as_strided.default(x, form.shape, form.stride(), x.storage_offset())
    values.follow(func, args, {}, out)
    return out


def _index(values: Followed, func: Any, args: Any, _: Any) -> Any:
    """Index a tensor; a known mask becomes the indices where it is true."""
    places: list[Any] = []
    for index in args[1]:
        known = values.of(index) if index is not None and index.dtype == torch.bool else None
        if known is None:
            places.append(index)
            continue
        with unset_fake_temporarily():
            real = known.nonzero(as_tuple=True)
        places += [values.as_fake(place) for place in real]
    return values.run_or_answer(func, (args[0], places), {})


def _packed(values: Followed, func: Any, args: Any, kwargs: Any) -> Any:
    """Pack sequences with known lengths and unknown values."""
    x, lengths, *rest = args
    known = values.of(lengths)
    if known is None or x.numel() > MOST_ELEMENTS:
        return func(*args, **kwargs)
    with unset_fake_temporarily(), torch.no_grad():
        data, sizes = func(torch.zeros(x.shape, dtype=x.dtype), known, *rest, **kwargs)
    # the sizes stay real: recurrent layers read their values at each step
    return fake_of(data, values.mode), sizes


def _recurrent(_values: Followed, func: Any, args: Any, kwargs: Any) -> Any:
    """A recurrent kernel of the CPU, with the workspace that it keeps for its backward.

    Only oneDNN knows the size of the workspace, so the kernel runs on zeros. For a long sequence a few steps
    are enough: the size is linear in the steps.
    """
    out = func(*args, **kwargs)
    # the last argument is `train`
    if not args[-1]:
        return out
    shapes = tuple(tuple(x.shape) for x in args[:7])
    steps, batch = shapes[0][:2]
    most = max(MOST_PROBED // (batch * sum(math.prod(shape) for shape in shapes[1:3])), 2)
    size = _workspace(shapes, args[0].dtype, args[7:], min(steps, most))
    if steps > most:
        half = most // 2
        per_step = (size - _workspace(shapes, args[0].dtype, args[7:], half)) / (most - half)
        size += round(per_step * (steps - most))
    return (*out[:3], torch.empty(size, dtype=torch.uint8))


def _workspace(shapes: Any, dtype: torch.dtype, options: Any, steps: int) -> int:
    """Bytes of the workspace of a real run with `steps` steps."""
    shapes = ((steps, *shapes[0][1:]), *shapes[1:])
    with unset_fake_temporarily(), torch.enable_grad():
        tensors = [torch.zeros(shape, dtype=dtype) for shape in shapes]
        return int(aten.mkldnn_rnn_layer.default(*tensors, *options)[3].numel())


def _recurrent_backward(_values: Followed, func: Any, args: Any, kwargs: Any) -> Any:
    """Gradients of the recurrent kernel: the fake one returns one gradient for both biases, oneDNN two."""
    out = func(*args, **kwargs)
    return (*out[:4], torch.empty_like(out[4]), *out[5:])


def _resized(_values: Followed, func: Any, args: Any, kwargs: Any) -> Any:
    """im2col and col2im: the CPU's kernel allocates an output as large as the input, then cuts it."""
    out, x = func(*args, **kwargs), args[0]
    if x.numel() <= out.numel():
        return out
    return torch.empty(x.numel(), dtype=x.dtype)[: out.numel()].view(out.shape)


STAND_INS: dict[Any, Callable[[Any, Any, Any, Any], Any]] = {
    aten.view.default: _view,
    aten.index.Tensor: _index,
    aten._pack_padded_sequence.default: _packed,
    aten.col2im.default: _resized,
    aten.im2col.default: _resized,
    aten.mkldnn_rnn_layer.default: _recurrent,
    aten.mkldnn_rnn_layer_backward.default: _recurrent_backward,
}
"""Replacements, by operation."""
