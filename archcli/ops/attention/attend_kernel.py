"""Attention by torch's fused kernels: their limits, and the padding and repeats that meet them.

- On a GPU flash attention (arXiv:2205.14135, arXiv:2307.08691) takes 16 bits, heads at most 256 wide, values
  as wide as keys, and no mask but the causal one; all else the memory-efficient kernel (arXiv:2112.05682),
  which wants a kv head for each query head. Rows begin at multiples of 16 bytes: heads are padded to them.
- A CPU's kernel takes values as wide as keys alone: the narrower ones are padded. It has no dropout.
- Anything else torch computes step by step in fp32.

B batch, T queries, S keys, H query heads, K kv heads, d width of queries and keys, e width of values.
"""

from __future__ import annotations

from typing import Any

ROW_BYTES = 16
"""Alignment of rows, in bytes, that a GPU's kernels ask for."""
WIDEST_FLASH = 256
"""The widest head that flash attention takes (torch's sdp_utils.cpp)."""
HALF_BYTES = 2
"""Bytes of an element that flash attention takes."""


def attend(torch: Any, q: Any, k: Any, v: Any, **options: Any) -> Any:
    """The attention of q [B, T, H, d], k [B, S, K, d] and v [B, S, K, e], [B, T, H, e], in one kernel.

    Options are those of torch's scaled_dot_product_attention.
    """
    width = v.shape[-1]
    q, k, v = _padded(torch, q, k, v)
    groups = q.shape[2] // k.shape[2]
    if q.device.type != "cpu" and groups > 1 and not _takes_flash(q, v, options["attn_mask"]):
        k, v = (x.repeat_interleave(groups, dim=2) for x in (k, v))
    by_head = (x.transpose(1, 2) for x in (q, k, v))
    kernel = torch.nn.functional.scaled_dot_product_attention
    mixed = kernel(*by_head, enable_gqa=q.shape[2] != k.shape[2], **options).transpose(1, 2)
    if v.shape[-1] == width:
        return mixed
    return mixed[..., :width].clone(memory_format=torch.contiguous_format)


def _takes_flash(q: Any, v: Any, mask: Any) -> bool:
    """Whether a GPU runs flash attention; queries are as many as keys where it is causal."""
    equal = q.shape[-1] == v.shape[-1]
    return mask is None and q.element_size() == HALF_BYTES and equal and q.shape[-1] <= WIDEST_FLASH


def _padded(torch: Any, q: Any, k: Any, v: Any) -> tuple[Any, ...]:
    """q, k and v with heads padded by zeros to the width that the device's kernel takes."""
    widest = max(q.shape[-1], v.shape[-1])
    step = ROW_BYTES // q.element_size()
    on_cpu = q.device.type == "cpu"
    by = [widest - x.shape[-1] if on_cpu else -x.shape[-1] % step for x in (q, k, v)]
    return tuple(
        torch.nn.functional.pad(x, (0, more)) if more else x for x, more in zip((q, k, v), by, strict=True)
    )
