"""What the backward of a norm keeps: its input and a statistic of each row, where one kernel runs.

A GPU has a kernel for LayerNorm and one for RMSNorm. A CPU has one for LayerNorm; RMSNorm runs there step by
step, in fp32.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from archcli.arith import Shape, prod
from archcli.graph.kept import FP32, Call, In, Kept, New

if TYPE_CHECKING:
    from archcli.ops.normalize import Normalize


def kept_of(norm: Normalize, call: Call, x: Shape) -> Iterator[Kept]:
    """What normalizing keeps, then what multiplying by the gain does.

    A gain that torch's kernel does not apply multiplies the normalized numbers, which its gradient needs. A
    gain with an offset is a tensor of its own.
    """
    n, width = prod(x), call.widths[0]
    gain_trains = norm.weight and call.trained
    if call.grads[0] or (norm.in_one_kernel and call.trained and (norm.weight or norm.centred)):
        yield from _kernel(norm, call, x)
    if gain_trains and not norm.in_one_kernel:
        yield New(n, width)
    elif gain_trains and not norm.centred and not call.on_cuda:
        yield New(n, FP32)
    if norm.offset and (call.grads[0] or (norm.in_one_kernel and (norm.centred or call.on_cuda))):
        yield New(prod(norm.weights(x)["weight"]), call.width)


def _kernel(norm: Normalize, call: Call, x: Shape) -> Iterator[Kept]:
    """The input, and of each row its statistics."""
    rows = prod(x[:-1]) * norm.groups
    if norm.centred:
        statistic = New(rows, FP32 if call.on_cuda else call.widths[0])
        yield from (In(0), statistic, statistic)
    elif call.on_cuda:
        yield from (In(0), New(rows, FP32))
    elif call.grads[0]:
        yield from (call.in_float(prod(x)), New(rows, FP32))
