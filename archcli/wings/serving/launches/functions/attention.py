"""torch's attention in one kernel: the kernel of each backend, and its backward."""

from __future__ import annotations

from typing import Any

from archcli.arith import Number, ceil_div
from archcli.wings.serving.launches.dtypes import BOOL, FP32, INT32, INT64
from archcli.wings.serving.launches.functions.pieces import pad
from archcli.wings.serving.launches.functions.pointwise import where
from archcli.wings.serving.launches.kernel import AttentionCall, StatedWork
from archcli.wings.serving.launches.launching import (
    launch,
    launch_gradients,
    launch_many,
    lowered,
    save_for_backward,
    view,
)
from archcli.wings.serving.launches.layouts import dense_strides
from archcli.wings.serving.launches.log import current
from archcli.wings.serving.launches.tensor import ShapeTensor, in_torch

WIDEST = 256
"""The largest head that a GPU's flash attention takes."""
STEP = 8
"""Alignment, in elements, of the rows of a mask that a GPU adds to scores."""
STATES_BYTES = 16
"""Bytes of a random state (two int64), which each kernel of a GPU writes."""
HALF = 2
"""Bytes of an element that a GPU's flash attention takes, and it alone keys that several heads share."""
BLOCK = 128
"""Queries, or keys, of a block of FlexAttention's masks."""
SUMS_STEP = 32
"""The memory-efficient kernel rounds the number of its row sums up to a multiple of this."""
BACKWARD_PRODUCTS, FORWARD_PRODUCTS = 5, 2
"""Matrix products of each direction, all of as many FLOPs."""


@in_torch
def scaled_dot_product_attention(
    q: Any,
    k: Any,
    v: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """Attention of q [B, H, T, d], k [B, K, S, d] and v [B, K, S, e]."""
    q, k, v = lowered(q, k, v)
    if current().groups > 1 and current().on_cuda and q.itemsize > HALF:
        return _in_steps(q, k, v, attn_mask, is_causal=is_causal)
    batch, heads, new, width = q.shape
    pairs = batch * heads * (new * (new + 1) // 2 if is_causal else new * k.shape[2])
    flops = 2 * pairs * (width + v.shape[3])
    name, rows, extra = _kernel(q, v, attn_mask)
    bias = _additive(attn_mask, q)
    shape = (batch, heads, new, v.shape[3])
    strides = (new * heads * v.shape[3], v.shape[3], heads * v.shape[3], 1)

    def backward(g: Any, *_: Any) -> tuple[Any, ...]:
        work = StatedWork(flops // FORWARD_PRODUCTS * BACKWARD_PRODUCTS)
        gradients = launch_gradients(f"{name}_backward", [g, q, k, v, out], (q, k, v), work=work)
        for x, gradient in zip((q, k, v), gradients, strict=True):
            if gradient is not None:
                gradient.strides = dense_strides(x.shape, x.strides)
        return gradients

    # sums are written for queries alone: those of rows rounded up are allocated, and never written
    written = batch * heads * new * (v.shape[3] * q.itemsize + FP32.itemsize) + (STATES_BYTES if extra else 0)
    out = launch_many(
        name,
        [q, k, v, bias],
        [(shape, q.dtype), ((batch, heads, rows), FP32), *extra],
        backward=backward,
        work=StatedWork(flops, written=written),
        differentiable=1,
    )[0]
    save_for_backward(out, bias)
    out.strides = strides
    return out


def _in_steps(q: Any, k: Any, v: Any, mask: Any, *, is_causal: bool) -> Any:
    """What torch does on a GPU where several heads share keys of more than 16 bits: no kernel takes them.

    `_scaled_dot_product_attention_math` of torch; keys and values come here repeated already, as it does.
    """
    scores = (q * 1.0) @ (k.transpose(-2, -1) * 1.0)
    if is_causal or mask is not None:
        shape = (q.shape[2], k.shape[2]) if mask is None else mask.shape
        launch("add_", [scores, launch("tril", [], shape, q.dtype)], scores.shape, scores.dtype)
    return scores.softmax(-1) @ v


@in_torch
def flex_attention(q: Any, k: Any, v: Any, flops: Number, mask: str, *biases: Any) -> Any:
    """FlexAttention of torch: the result [B, T, H, e], and the log-sum-exp of each query [B, T, H].

    `biases` are added to scores. Its backward (flex_attention.py in torch's _inductor/kernel/flex) first sums
    up each query's result times its gradient. Layers share the `mask` of this name, which lists blocks: those
    that are masked in part and those that are not at all, by queries and by keys, behind their numbers.
    """
    rows, columns = (ceil_div(x.shape[1], BLOCK) for x in (q, k))
    blocks = ShapeTensor((2 * (2 * rows * columns + rows + columns),), INT32)

    def backward(g: Any, of_sums: Any = None) -> tuple[Any, ...]:
        delta = launch("sum", [g, out, of_sums], sums.shape, FP32)
        reads = [g, q, k, v, out, sums, delta, *biases]
        work = StatedWork(flops // FORWARD_PRODUCTS * BACKWARD_PRODUCTS)
        return launch_gradients("flex_attention_backward", reads, (q, k, v, *biases), work=work)

    outputs = [((*q.shape[:3], v.shape[3]), q.dtype), (q.shape[:3], FP32)]
    inputs = [q, k, v, *biases]
    out, sums = launch_many("flex_attention", inputs, outputs, backward=backward, work=StatedWork(flops))
    current().shared[mask] = blocks
    save_for_backward(out, out, sums, blocks)
    return out, sums


@in_torch
def served_attention(
    q: Any, k: Any, v: Any, flops: Number, seen: Number, length: Number = 0, window: Number = 0
) -> Any:
    """An engine's attention of q [B, T, H, d], k [B, S, K, d] and v [B, S, K, e]: no function of torch.

    It reads the `seen` tokens of keys and values once. Values in the storage of the keys are part of them,
    as in latent attention, and not read again. Each query sees those up to its own of `length` tokens, or of
    a `window`; a `length` of 0 stands for attention that no engine's kernel is known for.
    """
    latent = v.storage is k.storage
    read = q.bytes + sum(x.numel() // x.shape[1] * seen * x.itemsize for x in ([k] if latent else [k, v]))
    shape, call = (*q.shape[:3], v.shape[3]), None
    if length:
        sizes = (q.shape[2], k.shape[2], k.shape[3], v.shape[3])
        call = AttentionCall(q.shape[0], q.shape[1], length, *sizes, window, latent)
    work = StatedWork(flops, read, call=call)
    return launch("_flash_attention_of_engine", [q, k, v], shape, q.dtype, work=work)


@in_torch
def side_by_side(a: Any, b: Any, dim: int = -1) -> Any:
    """Two tensors that lie in one storage, joined along an axis: no function of torch."""
    axis = dim % len(a.shape)
    return view(a, (*a.shape[:axis], a.shape[axis] + b.shape[axis], *a.shape[axis + 1 :]), a.strides)


def _kernel(q: Any, v: Any, mask: Any) -> tuple[str, Number, list[Any]]:
    """The kernel's name, the number of its row sums, and its outputs behind result and sums."""
    new = q.shape[2]
    if not current().on_cuda:
        return "_scaled_dot_product_flash_attention_for_cpu", new, []
    if mask is None and q.itemsize == 2 and q.shape[-1] == v.shape[-1] <= WIDEST:
        return "_scaled_dot_product_flash_attention", new, [((2,), INT64), ((), INT64)]
    rows = ceil_div(new, SUMS_STEP) * SUMS_STEP if current().records else 0  # none without a gradient
    return "_scaled_dot_product_efficient_attention", rows, [((), INT64), ((), INT64)]


def _additive(mask: Any, q: Any) -> Any:
    """The mask as what is added to scores; a GPU wants rows that begin at multiples of 8 elements."""
    if mask is None:
        return None
    bias = where(mask, 0.0, launch("scalar_tensor", [], (), q.dtype)) if mask.dtype == BOOL else mask
    if not current().on_cuda or (bias.strides[-1] == 1 and not any(s % STEP for s in bias.strides[:-1])):
        return bias
    width = bias.shape[-1]
    return pad(bias, (0, STEP - width % STEP))[..., :width]
