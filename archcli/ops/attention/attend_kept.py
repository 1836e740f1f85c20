"""What attention makes while it runs, and what its backward keeps: fused, or step by step.

Attention by torch's fused kernels: what they want of their inputs, and how they get it.

- On a GPU flash attention (arXiv:2205.14135, arXiv:2307.08691) takes 16 bits, heads at most 256 wide, values
  as wide as keys, and no mask but the causal one; all else the memory-efficient kernel (arXiv:2112.05682),
  which wants a kv head for each query head. Rows begin at multiples of 16 bytes: heads are padded to them.
- A CPU's kernel takes values as wide as keys alone: the narrower ones are padded. It has no dropout.
- Anything else torch computes step by step in fp32.

B batch, T queries, S keys, H query heads, K kv heads, d width of queries and keys, e width of values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from archcli.arith import Number, Shape, ceil_div, is_one, maximum, prod
from archcli.graph.kept import BOOL, FP32, INT64, Call, In, Out
from archcli.ops.attention.mask import Mask
from archcli.ops.attention.mask_scratch import key_positions, visibility, visible_selected
from archcli.ops.base import Scratch, ScratchTensor

ROW_BYTES = 16
"""Bytes to whose multiple a GPU's kernels want rows to begin."""
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
    """The same with heads as wide as the device's kernel wants them, zeros behind."""
    widest = max(q.shape[-1], v.shape[-1])
    step = ROW_BYTES // q.element_size()
    on_cpu = q.device.type == "cpu"
    by = [widest - x.shape[-1] if on_cpu else -x.shape[-1] % step for x in (q, k, v)]
    return tuple(
        torch.nn.functional.pad(x, (0, more)) if more else x for x, more in zip((q, k, v), by, strict=True)
    )


SEEDS = 2
"""Numbers of the random state that flash attention keeps, for its dropout."""
ROWS_OF_KERNEL = 32
"""Queries to whose multiple the memory-efficient kernel rounds its sums up."""
BIAS_STEP = 8
"""Elements to whose multiple torch pads the rows of a mask for the memory-efficient kernel."""


def same(a: Number, b: Number) -> bool:
    """Whether two sizes are the same number: of symbols the same one, of arrays all elements."""
    equal: Any = a is b or a == b
    return bool(equal.all() if hasattr(equal, "all") else equal)


@dataclass(frozen=True, slots=True)
class AttendCall:
    """A call of attention: its sizes, and the steps between its products.

    `masked` says that one kernel needs the mask written out, `selected` is the shape of the keys given to
    each query; `biases` are the inputs that are added to the scores, `sinks` the input that holds sinks.
    """

    call: Call
    q: Shape
    k: Shape
    v: Shape
    mask: Mask
    masked: bool
    selected: Shape | None = None
    softcap: bool = False
    alibi: bool = False
    biases: tuple[int, ...] = ()
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
    def visible(self) -> Number:
        """Entries of the mask."""
        return self.q[1] * self.k[1] * (self.q[0] if self.selected is not None else 1)

    @property
    def grouped(self) -> bool:
        """Whether several query heads share keys and values."""
        return not same(self.q[2], self.k[2])

    @property
    def takes_flash(self) -> bool:
        """Whether a GPU runs flash attention."""
        q, v = self.padded(self.q[3]), self.padded(self.v[3])
        narrow = not isinstance(q, int) or q <= WIDEST_FLASH
        return not self.masked and bool(self.width == HALF_BYTES) and same(q, v) and narrow

    def padded(self, d: Number) -> Number:
        """The width of heads that one kernel gets in place of d; symbols and arrays are wide enough."""
        if not self.call.on_cuda:
            return d if same(self.q[3], self.v[3]) else maximum(self.q[3], self.v[3])
        step = ROW_BYTES // self.width
        return ceil_div(d, step) * step if isinstance(d, int) else d


def fused(op: AttendCall) -> Scratch:
    """AttendCall in one kernel.

    It keeps q, k, v, the result and the log of each row's sum. Heads that are padded, or repeated for the
    memory-efficient kernel, are copies, and so is a mask.
    """
    scratch = Scratch(op.call)
    batch, new, heads, _ = op.q
    mask = _mask(op, scratch) if op.masked else None
    operands = [_operand(op, scratch, i) for i in range(3)]
    if op.call.on_cuda and op.grouped and not op.takes_flash:
        repeated = [batch * x[1] * heads * op.padded(x[3]) for x in (op.k, op.v)]
        operands[1:] = [scratch.new(size, op.width) for size in repeated]
    bias = None if mask is None else _bias(op, scratch)
    wide, size = op.padded(op.v[3]), batch * new * heads * op.width
    out: ScratchTensor | Out = Out(0)
    if same(wide, op.v[3]):
        scratch.hold(size * wide)
    else:
        out = scratch.new(size // op.width * wide, op.width)
    needed = any(op.call.grads)
    scratch.save(out, needed)
    for operand in operands:
        scratch.save(operand, needed)
    if bias is not None:
        scratch.save(bias, needed)
    _sums(op, scratch, needed=needed)
    del bias
    if isinstance(out, ScratchTensor):
        scratch.hold(size * op.v[3])
    del mask
    return scratch


def _sums(op: AttendCall, scratch: Scratch, *, needed: bool) -> None:
    """The log of each row's sum, and the random state; without gradients some kernels make neither."""
    rows, records = op.q[1], needed and op.call.execution.records
    flash = op.call.on_cuda and op.takes_flash
    if op.call.on_cuda and not flash:
        rows = ceil_div(rows, ROWS_OF_KERNEL) * ROWS_OF_KERNEL if records else 0
    sums = scratch.new(op.q[0] * op.q[2] * rows, FP32)
    scratch.save(sums, needed)
    seeds = scratch.new(SEEDS, INT64) if flash else None
    if seeds is not None:
        scratch.save(seeds, needed)
    if op.call.on_cuda:  # numbers without axes, which are not counted as kept
        bare = INT64 if flash else SEEDS * INT64
        scratch.hold(bare)
        scratch.live = scratch.live if records else scratch.live - bare


def _operand(op: AttendCall, scratch: Scratch, which: int) -> ScratchTensor | In:
    """q, k or v as the kernel gets it: padded, where its heads are too narrow."""
    x = (op.q, op.k, op.v)[which]
    width = op.padded(x[3])
    return In(which) if same(width, x[3]) else scratch.new(prod(x[:3]) * width, op.width)


def _mask(op: AttendCall, scratch: Scratch) -> ScratchTensor:
    """Which keys each query sees."""
    allowed = visibility(scratch, op.mask, op.q[1], op.k[1])
    if op.selected is None:
        return allowed
    chosen: ScratchTensor = visible_selected(scratch, allowed, op.selected, op.k[1])
    return chosen


def _bias(op: AttendCall, scratch: Scratch) -> ScratchTensor:
    """The mask as what is added to scores; a GPU's kernel wants rows of whole 8 elements."""
    bias = scratch.new(op.visible, op.width)
    row = ceil_div(op.k[1], BIAS_STEP) * BIAS_STEP
    if op.call.on_cuda and not same(row, op.k[1]):
        return scratch.new(op.visible // op.k[1] * row, op.width)
    return bias


def eager(op: AttendCall) -> Scratch:
    """AttendCall step by step: operands of both products, and what each step's gradient is computed from."""
    scratch, width = Scratch(op.call), op.width
    of_q, of_k, of_v = op.call.grads[:3]
    of_scores = of_q or of_k or any(op.call.grads[i] for i in op.biases)
    weighed = of_scores or (op.sinks is not None and op.call.grads[op.sinks])
    scores = _scores(op, scratch)
    if op.softcap:
        divided = scratch.new(op.pairs, width)
        capped = scratch.new(op.pairs, width)
        del divided
        scratch.save(capped, of_q or of_k)
        scores = scratch.new(op.pairs, width)
        del capped
    if op.alibi:
        slopes = _alibi(op, scratch)
        scores = scratch.new(op.pairs, width)
        del slopes
    for _ in op.biases:
        scores = scratch.new(op.pairs, width)
    mask = _mask(op, scratch)
    hidden = scratch.new(op.visible, BOOL)
    scratch.save(hidden, of_scores)
    scores = scratch.new(op.pairs, width)
    del hidden
    weigh = _positive if op.relu else _softmax
    probabilities = weigh(op, scratch, weighed=weighed)
    if op.dropout:
        probabilities = _dropped(op, scratch, weighed=weighed)
    values = In(2) if joins(op.v) else scratch.new(prod(op.v), width)
    scratch.save(values, weighed)
    scratch.save(probabilities, of_v)
    scratch.hold(prod(op.q[:3]) * op.v[3] * width)
    del scores, mask
    return scratch


def _alibi(op: AttendCall, scratch: Scratch) -> ScratchTensor:
    """What each head takes off for the distance of each key."""
    keys = key_positions(scratch, op.k[1])
    gaps = scratch.new(op.q[1] * op.k[1], INT64)
    positive = scratch.new(op.q[1] * op.k[1], INT64)
    del gaps
    distance = scratch.new(op.q[1] * op.k[1], op.width)
    del positive
    slopes = _slopes(op, scratch)
    weighed = scratch.new(op.pairs // op.q[0], op.width)
    del keys, distance, slopes
    return weighed


def _slopes(op: AttendCall, scratch: Scratch) -> ScratchTensor:
    """A slope for each head, of exponents in fp32 up to a power of two."""
    heads = op.q[2]
    power = 1 << (heads - 1).bit_length() if isinstance(heads, int) else heads
    counted = scratch.new(power, FP32)
    exponents = scratch.new(power, FP32)
    del counted
    bare = scratch.new(power, FP32)
    slopes = scratch.new(power, FP32)
    del bare
    chosen = slopes if same(power, heads) else scratch.new(power, FP32)
    result = chosen if op.call.in_fp32 else scratch.new(heads, op.width)
    del exponents
    return result


def joins(x: Shape) -> bool:
    """Whether sequences and heads of [B, T, H, d] are one axis without a copy."""
    return is_one(x[0]) or is_one(x[1]) or is_one(x[2])


def _scores(op: AttendCall, scratch: Scratch) -> ScratchTensor:
    """q k^T, and the same times the scale."""
    of_q, of_k, *_ = op.call.grads
    copies = not is_one(op.q[1]) if op.grouped else not joins(op.q)
    queries = scratch.new(prod(op.q), op.width) if copies else In(0)
    keys = In(1) if joins(op.k) else scratch.new(prod(op.k), op.width)
    product = scratch.new(op.pairs, op.width)
    scratch.save(queries, of_k)
    scratch.save(keys, of_q)
    del queries, keys
    scaled = scratch.new(op.pairs, op.width)
    del product
    return scaled


def _softmax(op: AttendCall, scratch: Scratch, *, weighed: bool) -> ScratchTensor:
    """Probabilities in fp32, and then in the dtype of q; sinks are one score more for each query."""
    pairs = op.pairs
    if op.sinks is not None:
        pairs = pairs + prod(op.q[:3])
        joined = scratch.new(pairs, op.width)
    wide = None if op.call.in_fp32 else scratch.new(pairs, FP32)
    result = scratch.new(pairs, FP32)
    del wide
    if op.sinks is not None:
        del joined
    scratch.save(result, weighed)
    return result if op.call.in_fp32 else scratch.new(op.pairs, op.width)


def _positive(op: AttendCall, scratch: Scratch, *, weighed: bool) -> ScratchTensor:
    """max(score, 0) over the number of keys that each query sees."""
    above = scratch.new(op.pairs, op.width)
    counts = scratch.new(op.visible // op.k[1], INT64)
    scratch.save(above, weighed)
    scratch.save(counts, weighed)
    return scratch.new(op.pairs, op.width)


def _dropped(op: AttendCall, scratch: Scratch, *, weighed: bool) -> ScratchTensor:
    """Probabilities some of which are zeroed; which ones is a byte each on a GPU, a factor on a CPU."""
    kept = scratch.new(op.pairs, BOOL if op.call.on_cuda else op.width)
    scratch.save(kept, weighed)
    return scratch.new(op.pairs, op.width)
