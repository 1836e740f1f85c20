"""Trace a model: run its forward on a counting tape. Headings of its rows besides those of layers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from archcli.graph import Row, Tape, Tensor, tree_map
from archcli.graph.count_tape import Abstract, CountTape
from archcli.modules.spec.request import InputSpec, Request

ONE_TOKEN = Request(seq_len=1, source_len=1)
MEDIA = "media"
"""The argument of a model's forward that is no tensor: the images and sounds of its prompt."""


def trace(
    model: Any,
    request: Request,
    *,
    adapted: Any = None,
    cache: Any = None,
    counting: type[CountTape] = CountTape,
) -> tuple[tuple[Row, ...], Any]:
    """The rows of the pass that `request` asks for, and the cache afterwards.

    `adapted` is the model with its adapters, if those are to be counted. `cache` None caches nothing, ()
    starts a cache, anything else is what an earlier trace returned, which holds the `past` tokens of the
    request. `counting` is the tape: a StateTape writes only rows of what is cached.
    """
    rows: list[Row] = []
    tape = counting(rows)
    # ids and features: no gradient flows to them
    inputs = tree_map(lambda spec: Abstract(spec.shape, grad=False), InputSpec, model.reads(request))
    _, cache = run_on(tape, adapted or model, request, inputs, cache)
    return tuple(rows), cache


def run_on(
    tape: Tape, model: Any, request: Request, inputs: Mapping[str, Any], cache: Any
) -> tuple[Tensor, Any]:
    """Run the forward of a request on a tape; what it returns: logits or a loss, and the cache."""
    tensors: dict[str, Any] = {name: Tensor(tape, value) for name, value in inputs.items() if name != MEDIA}
    if inputs.get(MEDIA):
        tensors[MEDIA] = tuple(read._replace(values=Tensor(tape, read.values)) for read in inputs[MEDIA])
    out: tuple[Tensor, Any] = model.forward(
        **tensors,
        past=0 if request.past is None else request.past,
        # an earlier trace left it on a tape of its own
        cache=tree_map(lambda x: Tensor(tape, x.value), Tensor, cache),
        last_only=request.last_only,
    )
    return out


def outline(model: Any, adapted: Any = None) -> tuple[Row, ...]:
    """The rows of one token's forward: every operation once per distinct layer.

    Fields that name operations are checked against it.
    """
    return trace(model, ONE_TOKEN, adapted=adapted)[0]


MTP = "mtp"
"""The first step of the paths of multi-token prediction's rows, and the heading they are counted under."""

ADAPTERS = "lora"
"""The heading of low-rank adapters."""

PLACING = "placing"
"""The heading of what puts vectors of images and sounds in their places among those of a text."""

LOSS = "loss"
"""The heading under which a loss is counted."""


def is_prediction(row: Row) -> bool:
    """Whether a row belongs to multi-token prediction."""
    return row.path.startswith(f"{MTP}.")
