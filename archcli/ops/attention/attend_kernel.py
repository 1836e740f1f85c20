"""Attention by torch's fused kernels: their limits, and the padding and repeats that meet them.

- On a GPU flash attention (arXiv:2205.14135, arXiv:2307.08691) takes 16 bits, heads at most 256 wide, values
  as wide as keys, and no mask but the causal one; all else the memory-efficient kernel (arXiv:2112.05682),
  which wants a kv head for each query head. Rows begin at multiples of 16 bytes: heads are padded to them.
- A CPU's kernel takes values as wide as keys alone: the narrower ones are padded. It has no dropout.
- Anything else torch computes step by step in fp32.

And what the backward of either holds while it runs, beside the tensors kept for it and all gradients.

B batch, T queries, S keys, H query heads, K kv heads, d width of queries and keys, e width of values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from archcli.arith import Number, Shape, ceil_div, is_one, is_whole, maximum, prod
from archcli.graph.kept import BOOL, FP32, Call

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
    # a copy: a view would keep the padded result in memory
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
    # a CPU asks for one width of q, k and v, a GPU for rows of whole 16 bytes
    by = [widest - x.shape[-1] if on_cpu else -x.shape[-1] % step for x in (q, k, v)]
    return tuple(
        torch.nn.functional.pad(x, (0, more)) if more else x for x, more in zip((q, k, v), by, strict=True)
    )


def same(a: Number, b: Number) -> bool:
    """Whether two sizes are the same number: of symbols the same one, of arrays all elements."""
    equal: Any = a is b or a == b
    return bool(equal.all() if hasattr(equal, "all") else equal)


class AttendCall(NamedTuple):
    """A call of attention: its sizes, and the steps that change the memory of its backward.

    call: the device and the dtypes.
    q, k, v: shapes [B, T, H, d], [B, S, K, d], [B, S, K, e].
    masked: one kernel needs the mask written out, as it is not the causal one.
    sinks: the input that holds the sinks, a further score of each head; None without them.
    relu: the weights are relu(scores) over the number of visible keys, not a softmax.
    dropout: some of the weights are dropped.
    """

    call: Call
    q: Shape
    k: Shape
    v: Shape
    masked: bool
    sinks: int | None = None
    relu: bool = False
    dropout: bool = False

    @property
    def width(self) -> Number:
        """Bytes of an element of q, k and v."""
        return self.call.widths[0]

    @property
    def pairs(self) -> Number:
        """Scores of all heads and sequences."""
        return self.q[0] * self.q[2] * self.q[1] * self.k[1]

    @property
    def grouped(self) -> bool:
        """Whether several query heads share keys and values."""
        return not same(self.q[2], self.k[2])

    @property
    def takes_flash(self) -> bool:
        """Whether a GPU runs flash attention."""
        q, v = self.padded(self.q[3]), self.padded(self.v[3])
        narrow = not is_whole(q) or q <= WIDEST_FLASH
        return not self.masked and bool(self.width == HALF_BYTES) and same(q, v) and narrow

    def padded(self, d: Number) -> Number:
        """The width of heads that one kernel gets in place of d; symbols and arrays are wide enough."""
        if not self.call.on_cuda:
            return d if same(self.q[3], self.v[3]) else maximum(self.q[3], self.v[3])
        step = ROW_BYTES // self.width
        return ceil_div(d, step) * step if is_whole(d) else d


def joins(x: Shape) -> bool:
    """Whether sequences and heads of [B, T, H, d] are one axis without a copy."""
    return is_one(x[0]) or is_one(x[1]) or is_one(x[2])


def backward(op: AttendCall, *, fused: bool) -> Number:
    """Peak bytes of the backward on top of all gradients, if the scores are larger than q, k and v.

    In one kernel: the gradients of padded or repeated heads. Step by step: the larger of two moments, both
    before q and k have gradients. At the first the gradients of the probabilities stand beside a copy of the
    result's; at the second there are those in and out of the softmax in fp32, less what was released before.
    """
    inputs = [prod(x) * op.width for x in (op.q, op.k, op.v)]
    if fused:
        return _gradients_of_copies(op) - sum(inputs)
    rows = prod(op.q[:3]) if op.sinks is not None else 0
    released = 0 if joins(op.v) else inputs[2]
    # kept by the forward: probabilities, and dropout's mask, of bools on a GPU and of q's dtype on a CPU
    if op.dropout:
        released = released + op.pairs * (op.width + (BOOL if op.call.on_cuda else op.width))
    elif not op.call.in_fp32 or op.relu:
        released = released + op.pairs * op.width
    weighed = 2 * op.width * op.pairs if op.relu else 2 * FP32 * (op.pairs + rows)
    copies = not is_one(op.q[1]) if op.grouped else not joins(op.q)
    mixed = op.pairs * op.width + (prod(op.q[:3]) * op.v[3] * op.width if copies else 0)
    # all gradients are counted by the caller, those of q and k too, which are not there yet
    return maximum(0, maximum(mixed, weighed - released) - inputs[0] - inputs[1])


def flex_backward(op: AttendCall, biases: Sequence[Shape]) -> Number:
    """Peak bytes of FlexAttention's backward on top of all gradients: a number in fp32 for each query.

    Sinks come after the kernel: the gradient of its result stands beside that of theirs, and each query has
    one for its log-sum-exp. Gradients of biases are added up in fp32.
    """
    queries = FP32 * prod(op.q[:3])
    behind = 0 if op.sinks is None else prod(op.q[:3]) * op.v[3] * op.width + queries
    return queries + behind + sum(FP32 * prod(bias) for bias in biases)


def _gradients_of_copies(op: AttendCall) -> Number:
    """Bytes of a kernel's gradients for q, k and v as it got them, and of a padded result's."""
    repeats = op.call.on_cuda and op.grouped and not op.takes_flash
    total: Number = 0
    for i, x in enumerate((op.q, op.k, op.v)):
        heads = op.q[2] if repeats and i else x[2]
        total = total + x[0] * x[1] * heads * op.padded(x[3]) * op.width
    wide = op.padded(op.v[3])
    return total if same(wide, op.v[3]) else total + prod(op.q[:3]) * wide * op.width
