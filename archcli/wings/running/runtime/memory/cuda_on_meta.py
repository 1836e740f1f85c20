"""CUDA on meta: tensors of the meta device choose the operators that torch chooses on a GPU.

Plain meta misleads. It takes `scaled_dot_product_attention` apart into mathematics in fp32, and `rms_norm`
into three copies of x in fp32, where CUDA runs one kernel each and keeps little. Within `cuda_on_meta()`:

- `aten::_fused_rms_norm` and its backward have a Meta kernel: shapes alone. `torch.library.impl` refuses to
  register one, as the operator is composite; `torch.library.Library(...).m.impl` does. What is kept follows
  from torch's own derivative formula (`derivatives.yaml`): x, the weight and the statistics.
- `aten::scaled_dot_product_attention` is answered by the operator of the kernel that CUDA's dispatcher would
  choose: flash attention, the memory-efficient kernel, or mathematics. Their Meta kernels and derivative
  formulas are torch's own.
- `aten::dropout` is answered by `aten::native_dropout`, which CUDA runs: it keeps a mask of bytes.
- `aten::_grouped_mm` takes fp32, too: CUDA does, torch's Meta kernel takes bf16 alone.

Registrations are global to the process and end with the block. Blocks may not be nested, and no other thread
may use meta tensors meanwhile. Never use the device "cuda" under FakeTensorMode for this: without a GPU the
backward's AccumulateGrad ends the process.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

aten = torch.ops.aten
MOST_FLASH_WIDTH = 256
"""The widest head that the flash kernel takes (torch's sdp_utils.cpp)."""
ATTENTION = "scaled_dot_product_attention"
MATRIX = 2
"""The axes of a matrix."""
HALF = frozenset({torch.float16, torch.bfloat16})


@contextmanager
def cuda_on_meta() -> Iterator[None]:
    """Let meta tensors choose CUDA's operators within the block."""
    kernels = {(name, "Meta"): kernel for name, kernel in META_KERNELS.items()}
    composite = {
        (name, key): answer for name, answer in COMPOSITE.items() for key in ("Meta", "AutogradMeta")
    }
    with _registered({**kernels, **composite}):
        yield


@contextmanager
def grouped_products_on_meta() -> Iterator[None]:
    """Let grouped products of every dtype have shapes within the block: on meta, and of fake tensors."""
    with _registered({("_grouped_mm", "Meta"): _grouped_product}):
        yield


@contextmanager
def _registered(kernels: Mapping[tuple[str, str], Any]) -> Iterator[None]:
    """Register kernels by operator and dispatch key within the block."""
    library: Any = torch.library.Library("aten", "IMPL")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # some replace a kernel, as they should
            for (name, key), kernel in kernels.items():
                library.m.impl(name, key, kernel)
        yield
    finally:
        library._destroy()


def _rms_norm(x: torch.Tensor, shape: list[int], *_: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """The result, and the inverse of each row's root mean square in fp32 (fp64 for fp64)."""
    rows = [*x.shape[: x.dim() - len(shape)], *(1 for _ in shape)]
    wide = torch.promote_types(x.dtype, torch.float32)
    return torch.empty_like(x, memory_format=torch.contiguous_format), x.new_empty(rows, dtype=wide)


def _rms_norm_backward(*args: Any) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """The gradients of x and of the weight, as far as they are needed."""
    _, x, _, _, weight, needed = args
    return (
        torch.empty_like(x, memory_format=torch.contiguous_format) if needed[0] else None,
        torch.empty_like(weight) if needed[1] and weight is not None else None,
    )


def _grouped_product(
    a: torch.Tensor, b: torch.Tensor, offs: torch.Tensor | None = None, *_: Any
) -> torch.Tensor:
    """The product of each group: [n, k] by [E, k, m] is [n, m]; [k, n] by [n, m] is [E, k, m]."""
    groups = [len(offs)] if offs is not None and a.dim() == b.dim() == MATRIX else []
    return a.new_empty([*groups, a.shape[-2], b.shape[-1]])


META_KERNELS = {
    "_fused_rms_norm": _rms_norm,
    "_fused_rms_norm_backward": _rms_norm_backward,
    "_grouped_mm": _grouped_product,
}
"""Kernels of shapes alone, by the operator of ATen."""


def _attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    **options: Any,
) -> torch.Tensor:
    """The attention of [B, H, T, d] by the kernel that CUDA's dispatcher chooses for these tensors."""
    if _takes_flash(q, k, v, attn_mask, is_causal):
        return _flash(q, k, v, dropout_p, is_causal, options.get("scale"))
    bias = _additive(attn_mask, q.dtype)
    if _takes_efficient(q, k, v):
        keeps = torch.is_grad_enabled() and any(x.requires_grad for x in (q, k, v))
        bias = None if bias is None else _aligned_bias(bias).expand(*q.shape[:-1], k.shape[-2])
        out = aten._scaled_dot_product_efficient_attention(
            q, k, v, bias, keeps, dropout_p, is_causal, scale=options.get("scale")
        )
    else:
        out = aten._scaled_dot_product_attention_math(q, k, v, bias, dropout_p, is_causal, **options)
    answer: torch.Tensor = out[0]
    return answer


def _dropout(x: torch.Tensor, p: float, train: bool) -> torch.Tensor:  # torch's order
    """Dropout by the kernel that writes a mask, where there is anything to drop."""
    # is_fused_kernel_acceptable of ATen/native/Dropout.cpp asks for a p between 0 and 1
    answer: torch.Tensor = aten.native_dropout(x, p, train)[0] if train and 0 < p < 1 else x
    return answer


COMPOSITE = {ATTENTION: _attention, "dropout": _dropout}
"""Answers to composite operators, by the operator of ATen: below autograd and above it."""


def _takes_flash(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None, causal: bool
) -> bool:
    """Whether flash attention takes these.

    It wants 16 bits, no mask, values as wide as keys, at most 256, and as many queries as keys where causal.
    """
    square = not causal or q.shape[-2] == k.shape[-2]
    return mask is None and square and q.dtype in HALF and q.shape[-1] == v.shape[-1] <= MOST_FLASH_WIDTH


def _takes_efficient(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> bool:
    """Whether the memory-efficient kernel takes these.

    It wants rows of whole 16 bytes and, in torch 2.13, a kv head per query head: grouped queries with a mask
    fall to mathematics, in which scores take fp32 (its sdp_utils.cpp; 2.14 takes them).
    """
    return q.shape[-3] == k.shape[-3] and not any(x.shape[-1] * x.itemsize % 16 for x in (q, v))


def _flash(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, dropout: float, causal: bool, scale: float | None
) -> torch.Tensor:
    """Flash attention, its heads padded to a multiple of 8 as torch does."""
    width = q.shape[-1]
    scale = 1 / math.sqrt(width) if scale is None else scale
    if width % 8:
        # pad_last_dim of ATen/native/transformers/attention.cpp
        q, k, v = (torch.nn.functional.pad(x, (0, -width % 8)) for x in (q, k, v))
    out: torch.Tensor = aten._scaled_dot_product_flash_attention(
        q, k, v, dropout, causal, False, scale=scale
    )[0]
    return out[..., :width] if width % 8 else out


def _additive(mask: torch.Tensor | None, dtype: torch.dtype) -> torch.Tensor | None:
    """The mask as what is added to scores, as torch makes it of a boolean one."""
    if mask is None or mask.dtype != torch.bool:
        return mask
    return torch.where(mask, 0.0, torch.scalar_tensor(-math.inf, dtype=dtype, device=mask.device))


def _aligned_bias(bias: torch.Tensor) -> torch.Tensor:
    """The bias with rows that begin at multiples of 8 elements: padded, then cut, as torch does."""
    if bias.stride(-1) == 1 and not any(stride % 8 for stride in bias.stride()[:-1]):
        return bias
    width = bias.shape[-1]
    # 8 more even where 8 divides the width, as pad_bias of torch's attention.cpp has it
    return torch.nn.functional.pad(bias, (0, 8 - width % 8))[..., :width]
