"""The cost of attention's steps between scores and mix, exact for the mask; executed over every pair."""

from __future__ import annotations

from dataclasses import replace

from archcli.arith import Number
from archcli.graph import OpClass, Part
from archcli.ops.base import SOFTCAP, SOFTMAX_BACKWARD, SOFTMAX_FORWARD, summed


def softcap(exact: Number, every_pair: Number) -> Part:
    """A bound on the scores by tanh."""
    flops, executed = SOFTCAP * exact, SOFTCAP * every_pair
    back = Part(
        "d_softcap", OpClass.ELEMENTWISE, flops, 2 * every_pair, every_pair, executed=executed, wrt=(0, 1)
    )
    return Part("softcap", OpClass.ELEMENTWISE, flops, every_pair, every_pair, (back,), executed)


def bias(exact: Number, every_pair: Number, elements: Number) -> Part:
    """A sum of the scores with a bias of this many elements."""
    return Part("bias", OpClass.ELEMENTWISE, exact, every_pair + elements, every_pair, executed=every_pair)


def relu(exact: Number, every_pair: Number, below: tuple[int, ...]) -> Part:
    """ReLU in place of softmax: the division costs one FLOP per element, the maximum none."""
    back = Part(
        "d_relu", OpClass.ELEMENTWISE, exact, 2 * every_pair, every_pair, executed=every_pair, wrt=below
    )
    return Part("relu", OpClass.ELEMENTWISE, exact, every_pair, every_pair, (back,), executed=every_pair)


def softmax(exact: Number, every_pair: Number, below: tuple[int, ...]) -> Part:
    """The softmax over the keys."""
    flops, executed = SOFTMAX_BACKWARD * exact, SOFTMAX_BACKWARD * every_pair
    back = Part(
        "d_softmax", OpClass.NORMALIZATION, flops, 2 * every_pair, every_pair, executed=executed, wrt=below
    )
    return Part(
        "softmax",
        OpClass.NORMALIZATION,
        SOFTMAX_FORWARD * exact,
        every_pair,
        every_pair,
        (back,),
        SOFTMAX_FORWARD * every_pair,
    )


def with_sinks(
    exact: Number, every_pair: Number, queries: Number, heads: Number, below: tuple[int, ...], wrt: int
) -> Part:
    """The softmax with one more, unscaled logit per query and head; a head's gradients add up to one."""
    part = softmax(exact, every_pair, below)
    more, more_back = (SOFTMAX_FORWARD - 1) * queries, (SOFTMAX_BACKWARD - 1) * queries
    back = part.backward[0]
    back = replace(
        back,
        flops=back.flops + more_back,
        executed=back.unmasked_flops + more_back,
        written=every_pair + queries,
    )
    gradients = (back, summed(wrt, queries, heads))
    return replace(
        part,
        flops=part.flops + more,
        executed=part.unmasked_flops + more,
        read=every_pair + heads,
        written=every_pair + queries,
        backward=gradients,
    )


def dropout(exact: Number, every_pair: Number, below: tuple[int, ...]) -> tuple[Part, ...]:
    """Multiply by the dropout mask, which is written with the result and read by the gradient."""
    back = Part("d_dropout", OpClass.NORMALIZATION, 0, every_pair, 0, wrt=below)
    return (
        Part(
            "dropout",
            OpClass.NORMALIZATION,
            exact,
            0,
            2 * every_pair,
            (back,),
            executed=every_pair,
            training=True,
        ),
    )
