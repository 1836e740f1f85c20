"""What some operations need to run on fake tensors as they do on real ones of a CPU.

torch's fake tensors take other strides in a view, make sparse tensors without elements, and leave out what
recurrent kernels keep. Packed sequences and masks as indices have shapes that values decide, which may be
known though the numbers beside them are not.
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
"""The largest tensor whose values are followed: the mask of 4,096 tokens."""
MOST_PROBED = 10**10
"""Multiply-adds of the largest recurrent kernel that runs for the size of its workspace: a second or two."""
ON_CPU = "--run-on cpu (run_on='cpu') runs it on real tensors"
IN_ROWS = {torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc}


class Followed(Protocol):
    """Values that are followed beside a run on fake tensors."""

    mode: Any

    def of(self, tensor: Any) -> torch.Tensor | None:
        """The values of a tensor, None where they are not known."""

    def as_fake(self, real: Any) -> Any:
        """Fakes of real tensors, whose values are remembered."""

    def follow(self, func: Any, args: Any, kwargs: Any, out: Any) -> None:
        """Remember the values of what an operation gave."""

    def run_or_answer(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Run an operation, or give what it finds in known values."""


def fake_of(tensor: Any, mode: Any) -> Any:
    """A fake with the storages of a tensor; torch makes one of a sparse tensor without any element."""
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
    """Run an operation on packed weights, which cannot be compared, as a cache of results does."""
    mode: Any = values.mode
    before, mode.cache_enabled = mode.cache_enabled, False
    try:
        return func(*args, **kwargs)
    finally:
        mode.cache_enabled = before


def _view(values: Followed, func: Any, args: Any, _: Any) -> Any:
    """A view with the strides of real ones, which differ in axes of size 1.

    By them a convolution chooses whether channels come last.
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
    """Elements at indices; a known mask among these becomes the places where it is true."""
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
    """Pack sequences whose lengths are known, and their numbers are not."""
    x, lengths, *rest = args
    known = values.of(lengths)
    if known is None or x.numel() > MOST_ELEMENTS:
        return func(*args, **kwargs)
    with unset_fake_temporarily(), torch.no_grad():
        data, sizes = func(torch.zeros(x.shape, dtype=x.dtype), known, *rest, **kwargs)
    # recurrent layers read the sizes at each step, which only a real tensor lets them
    return fake_of(data, values.mode), sizes


def _recurrent(_values: Followed, func: Any, args: Any, kwargs: Any) -> Any:
    """A recurrent kernel of the CPU, with what it keeps for its backward.

    How much that is, the library oneDNN alone knows; so the kernel runs once on zeros. Fewer steps of a long
    sequence do, as it grows by each.
    """
    out = func(*args, **kwargs)
    if not args[-1]:  # it does not train
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
    """Bytes of the workspace of one run for real, of so many steps."""
    shapes = ((steps, *shapes[0][1:]), *shapes[1:])
    with unset_fake_temporarily(), torch.enable_grad():
        tensors = [torch.zeros(shape, dtype=dtype) for shape in shapes]
        return int(aten.mkldnn_rnn_layer.default(*tensors, *options)[3].numel())


def _recurrent_backward(_values: Followed, func: Any, args: Any, kwargs: Any) -> Any:
    """Its gradients: fake tensors give both biases one, the kernel makes two."""
    out = func(*args, **kwargs)
    return (*out[:4], torch.empty_like(out[4]), *out[5:])


def _resized(_values: Followed, func: Any, args: Any, kwargs: Any) -> Any:
    """Patches folded or unfolded: the CPU's kernel makes its output as large as the input, then cuts it."""
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
"""How operations run on fake tensors that would run otherwise there."""
