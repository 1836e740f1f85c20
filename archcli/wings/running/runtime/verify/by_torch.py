"""Compare with torch: names and shapes of tensors, shapes of inputs, cached elements, FLOPs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

import torch
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from archcli.arith import Shape
from archcli.graph import OpClass, Row
from archcli.modules.models.layers import LayerIndex
from archcli.modules.spec.request import Request
from archcli.wings.media.modules.models.tower import GivenMedium
from archcli.wings.running.runtime.model.build import Cache, LanguageModel
from archcli.wings.running.runtime.verify.contractions import FORMULAS, Contractions, contractions
from archcli.wings.running.runtime.verify.result import ReferenceResult, compare_entries


class Given(NamedTuple):
    """The inputs of a pass: ids, an encoder-decoder's source, and media of the prompt."""

    tensors: tuple[Any, ...]
    media: tuple[GivenMedium, ...] = ()


class Counted(Protocol):
    """The interface of a counted pass, implemented by `measure.passes.Pass`."""

    @property
    def request(self) -> Request:
        """The request that it answers."""

    @property
    def phase(self) -> str:
        """The phase: train, prefill or decode."""

    @property
    def batch_size(self) -> Any:
        """Sequences in the batch."""

    @property
    def rows(self) -> tuple[Row, ...]:
        """The counted rows."""

    def flops(self, *, unmasked: bool = False) -> tuple[Any, Any]:
        """FLOPs of matrix products, and others."""

    def params(self) -> Any:
        """Parameters."""

    def cached(self) -> Any:
        """Elements the cache holds afterwards."""

    def cross_cached(self) -> Any:
        """Cached elements of an encoder's output."""


class TorchResults(NamedTuple):
    """The results of a pass, and calls of operations without a formula that are no products."""

    results: list[ReferenceResult]
    uncounted: Counter[str]


def unmasked_flops(row: Row) -> tuple[int, int]:
    """(forward, backward) matmul FLOPs of one occurrence of a row, masked scores included."""
    flops = {"forward": 0, "backward": 0}
    for stage, _, part in row.pieces("train"):
        if part.op_class is OpClass.CONTRACTION:
            flops[stage] += part.unmasked_flops
    return flops["forward"], flops["backward"]


def verify_parameters(
    model: LanguageModel, counted: Counted, layers: LayerIndex
) -> Iterator[ReferenceResult]:
    """Compare the number of parameters, and names and shapes of parameters and buffers."""
    ours: dict[str, Shape] = {}
    buffers: dict[str, Shape] = {}
    for row in counted.rows:
        stacked = () if row.experts is None else (row.experts.n_experts,)
        for path in layers.stored_paths(row):
            ours |= {f"{path}.{name}": (*stacked, *shape) for name, shape in row.weights.items()}
            buffers |= {
                f"{path}.{name}": (*stacked, *shape) for name, shape in row.op.buffers(*row.inputs).items()
            }
    theirs = dict(model.named_parameters())
    yield ReferenceResult("torch's parameters", "total", counted.params(), _elements(theirs.values()))
    yield from compare_entries(
        "torch's parameters", "names and shapes", ours, _shapes(theirs.items()), layers.counted_path
    )
    yield from compare_entries(
        "torch's buffers", "names and shapes", buffers, _shapes(model.named_buffers()), layers.counted_path
    )


def verify_training(model: LanguageModel, inputs: Given, train: Counted, layers: LayerIndex) -> TorchResults:
    """Compare FLOPs of the forward, and of forward and backward, in total and by row.

    The backward starts at the loss where the model trains on targets.
    """
    model.train()
    # any ids: on meta their values are not read
    targets = inputs.tensors[0] if model.spec.trains_on_targets else None
    with contractions(model) as executed, _counter() as counter:
        outputs = tree_leaves(model(*inputs.tensors, targets=targets, media=inputs.media))
        halfway = counter.get_total_flops()
        torch.autograd.backward(outputs, [torch.empty_like(output) for output in outputs])
    totals = [
        ReferenceResult(
            "FlopCounterMode",
            "forward FLOPs",
            sum(row.times * unmasked_flops(row)[0] for row in train.rows),
            halfway,
        ),
        ReferenceResult(
            "FlopCounterMode", "train FLOPs", train.flops(unmasked=True)[0], counter.get_total_flops()
        ),
    ]
    return TorchResults([*totals, *_by_row(train, executed, layers)], executed.uncounted)


def verify_step(
    model: LanguageModel, inputs: Given, past: Given | None, counted: Counted, layers: LayerIndex
) -> TorchResults:
    """Compare cached elements and FLOPs of a prefill or decode step, in total and by row."""
    model.eval()
    with torch.no_grad(), _frozen(model):
        cache = Cache() if past is None else model.prefill(*past.tensors, media=past.media)[1]
        with (
            contractions(model) as executed,
            _counter() as counter,
        ):
            ids, *source = inputs.tensors
            kept = model.step(ids, cache, *source, last_only=True, media=inputs.media)[1]
    total = ReferenceResult(
        "FlopCounterMode",
        f"{counted.phase} FLOPs",
        counted.flops(unmasked=True)[0],
        counter.get_total_flops(),
    )
    return TorchResults(
        [total, *_cached(counted, cache, kept), *_by_row(counted, executed, layers)], executed.uncounted
    )


@contextmanager
def _frozen(model: LanguageModel) -> Iterator[None]:
    """Switch gradients of weights off within the block: torch's counter would look for those of views."""
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    try:
        for weight in trained:
            weight.requires_grad_(False)
        yield
    finally:
        for weight in trained:
            weight.requires_grad_(True)


def _counter() -> FlopCounterMode:
    return FlopCounterMode(display=False, custom_mapping=FORMULAS)


def _cached(counted: Counted, before: Cache, after: Cache) -> Iterator[ReferenceResult]:
    """Compare cached elements; those of an encoder's output must be the same tensors as before."""
    tensors, cross = after.tensors(), counted.cross_cached()
    yield ReferenceResult(
        "torch's cache", f"elements after {counted.phase}", counted.cached() + cross, _elements(tensors)
    )
    old = {id(tensor) for tensor in before.tensors()}
    carried = _elements(tensor for tensor in tensors if id(tensor) in old)
    if old and (cross or carried):
        yield ReferenceResult("torch's cache", "elements of the source, carried over", cross, carried)


def _elements(tensors: Iterable[Any]) -> int:
    return sum(tensor.numel() for tensor in tensors)


def _by_row(counted: Counted, executed: Contractions, layers: LayerIndex) -> Iterator[ReferenceResult]:
    """Compare, by row, input shapes and FLOPs of matrix products, and list products without a formula."""
    phase = counted.phase
    ours = [(path, row) for row in counted.rows for path in layers.built_paths(row.path)]
    ran = {path: op.inputs for path, op in executed.ran.items()}
    # the row of a borrowed weight (a tied head) never runs
    counts = {path: row.inputs for path, row in ours if row.parts or path in ran}
    yield from compare_entries(
        "torch's shapes", f"inputs of each row, {phase}", counts, ran, layers.counted_path
    )
    flops = {path: unmasked_flops(row) for path, row in ours}
    sides = (
        {"forward": executed.forward, "backward": executed.backward}
        if phase == "train"
        else {phase: executed.forward}
    )
    for i, (side, theirs) in enumerate(sides.items()):
        contracting = {path: both[i] for path, both in flops.items() if both[i]}
        yield from compare_entries(
            "torch's formulas", f"FLOPs of each row, {side}", contracting, theirs, layers.counted_path, 0
        )
    for (name, path), times in executed.unknown.items():
        yield ReferenceResult(
            "torch's formulas", f"no formula for {name}", 0, times, layers.counted_path(path)
        )


def _shapes(tensors: Iterable[tuple[str, Any]]) -> dict[str, Shape]:
    return {name: tuple(tensor.shape) for name, tensor in tensors}
