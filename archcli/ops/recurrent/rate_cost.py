"""The cost of a trained bias on gates, and of their product with the rate e^A_log of a head."""

from __future__ import annotations

from archcli.arith import Number
from archcli.graph import OpClass, Part
from archcli.ops.base import summed


def gate_bias(n: Number, gates: Number) -> Part:
    """The cost of n gates plus dt_bias, of which there are as many as gates of a token."""
    return Part("bias", OpClass.ELEMENTWISE, n, n + gates, n, (summed("dt_bias", n, gates),))


def rated(name: str, n: Number, heads: Number) -> Part:
    """The cost of n gates times e^A_log of their head; its gradient is a sum over all gates of a head."""
    to_gate = Part("d_0", OpClass.ELEMENTWISE, n, n + heads, n, wrt=0)
    to_rate = Part("d_A_log", OpClass.NORMALIZATION, 2 * n + heads, 2 * n, heads, wrt="A_log")
    return Part(name, OpClass.ELEMENTWISE, n + heads, n + heads, n, (to_gate, to_rate))
