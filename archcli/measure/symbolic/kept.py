"""Kept: the bytes that a forward keeps for its backward, counted with symbols or arrays as sizes."""

from __future__ import annotations

from archcli.arith import Number
from archcli.graph.kept import Execution
from archcli.measure.memory.traced import kept_bytes, trace_memory
from archcli.modules import Model
from archcli.modules.spec.request import Request


def activation_memory(model: Model, batch_size: Number, seq_len: Number) -> Number:
    """Bytes kept for the backward, as `archcli memory` counts them: bf16, fused attention, CUDA."""
    request = Request("train", batch_size, seq_len)
    return kept_bytes(trace_memory(model, request, Execution(), moments=False))
