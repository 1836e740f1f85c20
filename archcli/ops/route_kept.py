"""What the backward of routing keeps: scores, the choice, and what the weights were divided by."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from archcli.arith import Shape, prod
from archcli.graph.kept import BOOL, FP32, INT64, Call, Kept, New, Out

if TYPE_CHECKING:
    from archcli.ops.route import Route


def of_scores(route: Route, call: Call, logits: Shape) -> Iterator[Kept]:
    """The scores of all experts in fp32, of which the chosen are taken, and what weighs those."""
    every, tokens = prod(logits), prod(logits[:-1])
    chosen = New(tokens * route.top_k, FP32)
    yield Out(1)
    if route.scores == "softmax_after":
        yield call.in_float(every)
        yield Out(0) if call.in_fp32 and route.scale == 1.0 else chosen
        return
    yield New(every, FP32)
    if route.normalized:
        yield chosen
        yield New(tokens, FP32)


def one_by_one(route: Route, logits: Shape) -> Iterator[Kept]:
    """Of each choice which experts were worse, the softmax over the others, and the expert."""
    choices = route.top_k if isinstance(route.top_k, int) else 1
    every, tokens = (n * (route.top_k // choices) for n in (prod(logits), prod(logits[:-1])))
    for _ in range(choices):
        yield New(every, BOOL)
        yield New(every, FP32)
        yield New(tokens, INT64)
