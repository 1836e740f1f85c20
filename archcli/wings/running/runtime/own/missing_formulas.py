"""FLOPs of products that torch has no formula for, by the name of their operation.

torch's own formulas take shapes; these take tensors, and the output as `out_val`. An operation of another
library than ATen is named with its namespace.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch


def _grouped(a: Any, b: Any, *_: Any, **__: Any) -> int:
    """Products of groups of rows: every row meets one matrix; dropless, so that no row is left out."""
    if a.dim() == b.dim() == 3:  # noqa: PLR2004 - axes of stacks of matrices
        return 2 * math.prod(a.shape) * b.shape[-1]
    # [n, k] by [E, k, m]; [m, n] by [n, k] and [E, m, k] by [k, n], whose groups share out n
    return 2 * a.shape[-2] * a.shape[-1] * b.shape[-1]


def _lstm_layer(x: Any, w_ih: Any, w_hh: Any, *_: Any, **__: Any) -> int:
    """A layer of an LSTM in one kernel: every step's input and state meet their matrices."""
    steps = math.prod(x.shape[:-1])
    return 2 * steps * (math.prod(w_ih.shape) + math.prod(w_hh.shape))


def _lstm_layer_backward(x: Any, w_ih: Any, w_hh: Any, *_: Any, **__: Any) -> int:
    return 2 * _lstm_layer(x, w_ih, w_hh)


def _recurrent(x: Any, weights: Sequence[Any], *_: Any, **__: Any) -> int:
    """All layers and directions of a recurrent network in one kernel: every step meets every matrix."""
    return 2 * math.prod(x.shape[:-1]) * sum(math.prod(w.shape) for w in weights if w.dim() > 1)


def _trilinear(*args: Any, **_: Any) -> int:
    """Sums over products of three: the first two are multiplied and then summed with the third."""
    shapes, sumdim = [], args[6]
    for x, expand in zip(args[:3], args[3:6], strict=True):
        shape = list(x.shape)
        for axis in sorted(expand):
            shape.insert(axis, 1)
        shapes.append(shape)
    axes: list[int] = [max(sizes) for sizes in zip(*shapes, strict=True)]
    # a bilinear form runs it with its first axis of the output in a loop: 2 multiplications, 1 addition
    return 3 * math.prod(axes) if sumdim else 2 * math.prod(axes)


def _linear(x: Any, weight: Any, *_: Any, **__: Any) -> int:
    return 2 * math.prod(x.shape) * weight.shape[0]


def _matmul(a: Any, *_: Any, out_val: Any, **__: Any) -> int:
    return 2 * math.prod(out_val.shape) * a.shape[-1]


def _of_first(a: Any, *_: Any, **__: Any) -> int:
    return 2 * math.prod(a.shape)


def _added_mv(_x: Any, a: Any, *_: Any, **__: Any) -> int:
    return 2 * math.prod(a.shape)


def _added_bmm(_x: Any, a: Any, b: Any, *_: Any, **__: Any) -> int:
    return 2 * math.prod(a.shape) * b.shape[-1]


def _distances(a: Any, *_: Any, out_val: Any, **__: Any) -> int:
    """Distances of all pairs: a difference, a power and a sum per element of each pair; by a product, 2."""
    return 2 * math.prod(out_val.shape) * a.shape[-1]


def _packed_product(x: Any, *_: Any, out_val: Any, **__: Any) -> int:
    return 2 * math.prod(x.shape) * out_val.shape[-1]


def _distance_gradients(_grad: Any, a: Any, b: Any, *_: Any, **__: Any) -> int:
    """The gradient of one side: each difference times a factor of its pair, added up."""
    return 2 * math.prod(a.shape) * b.shape[-2]


def _sparse_product(_x: Any, a: Any, b: Any, *_: Any, **__: Any) -> int:
    """A sparse matrix by a dense one: each stored element meets a row."""
    return stored_product(a, b)


def stored_product(a: Any, b: Any) -> int:
    """FLOPs of a product of which one side is sparse: 2 for each stored element and column."""
    first = a.layout is not torch.strided
    stored, factor = (a, b) if first else (b, a)
    columns = 1 if factor.dim() == 1 else factor.shape[-1 if first else -2]
    elements = stored._values() if stored.layout is torch.sparse_coo else stored.values()
    return 2 * elements.numel() * columns


def _conv_tbc(_x: Any, weight: Any, *_: Any, out_val: Any, **__: Any) -> int:
    return 2 * out_val.shape[0] * out_val.shape[1] * math.prod(weight.shape)


def _deformed(_x: Any, weight: Any, *_: Any, out_val: Any, **__: Any) -> int:
    """A convolution whose places are learnt; the weight is [out, in / groups, height, width]."""
    return 2 * out_val.shape[0] * math.prod(out_val.shape[2:]) * math.prod(weight.shape)


def _deformed_gradients(grad: Any, x: Any, weight: Any, *_: Any, **__: Any) -> int:
    """The gradients of the input, which those of the places share, and of the weight."""
    return 2 * _deformed(x, weight, out_val=grad)


def _grouped_gradients(x: Any, weight: Any, *_: Any, **__: Any) -> int:
    return 2 * _grouped(x, weight)


def _packed_conv(_x: Any, packed: Any, *_: Any, out_val: Any, **__: Any) -> int:
    """A quantized convolution, whose weight only its packed form knows."""
    weight = packed.unpack()[0]
    return 2 * out_val.shape[0] * math.prod(out_val.shape[2:]) * math.prod(weight.shape)


def _packed_transpose(x: Any, packed: Any, *_: Any, **__: Any) -> int:
    weight = packed.unpack()[0]
    return 2 * x.shape[0] * math.prod(x.shape[2:]) * math.prod(weight.shape)


def _quantized(names: str, endings: str) -> list[str]:
    return [
        f"quantized::{name}{end}"
        for name in names.split()
        for end in ("", *(f"_{x}" for x in endings.split()))
    ]


def _pairs_of_lists(ours: Any, theirs: Any, *_: Any, **__: Any) -> int:
    return sum(_of_first(a) * b.shape[-1] for a, b in zip(ours, theirs, strict=True))


Formula = Callable[..., int]
OURS: dict[str, Formula] = {
    "_foreach_mm": _pairs_of_lists,
    "_grouped_mm": _grouped,
    "_scaled_grouped_mm": _grouped,
    "_scaled_grouped_mm_v2": _grouped,
    "mkldnn_rnn_layer": _lstm_layer,
    "mkldnn_rnn_layer_backward": _lstm_layer_backward,
    "_cudnn_rnn": _recurrent,
    "miopen_rnn": _recurrent,
    "_trilinear": _trilinear,
    "linear": _linear,
    "mkldnn_linear": _linear,
    "_mixed_dtypes_linear": _linear,
    "matmul": _matmul,
    "_int_mm": _matmul,
    "_scaled_mm_v2": _matmul,
    "mv": _of_first,
    "dot": _of_first,
    "vdot": _of_first,
    "addmv": _added_mv,
    "addbmm": _added_bmm,
    "_addmm_activation": _added_bmm,
    "_cdist_forward": _distances,
    "_cdist_backward": _distance_gradients,
    "_euclidean_dist": _distances,
    "_weight_int8pack_mm": _packed_product,
    "_weight_int4pack_mm": _packed_product,
    "_weight_int4pack_mm_for_cpu": _packed_product,
    "_dyn_quant_matmul_4bit": _packed_product,
    "_sparse_addmm": _sparse_product,
    "conv_tbc": _conv_tbc,
    "torchvision::deform_conv2d": _deformed,
    "torchvision::_deform_conv2d_backward": _deformed_gradients,
    "transformers::grouped_mm_fallback": _grouped,
    "transformers::grouped_mm_fallback_backward": _grouped_gradients,
    **dict.fromkeys(
        _quantized("linear", "relu leaky_relu tanh dynamic dynamic_fp16 relu_dynamic"), _packed_product
    ),
    **dict.fromkeys(_quantized("conv1d conv2d conv3d", "relu add add_relu dynamic"), _packed_conv),
    **dict.fromkeys(
        _quantized("conv_transpose1d conv_transpose2d conv_transpose3d", "dynamic"), _packed_transpose
    ),
}
"""FLOPs by the name of an operation that torch has no formula for."""
