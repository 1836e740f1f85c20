"""A cache of operations' launches: equal calls run once, as those of the equal layers of a model.

The launches of an operation depend on its settings and on shape, dtype and strides of its inputs. So a call
like an earlier one writes the same launches to the log, and returns like tensors: new ones, or views of the
same inputs and weights. Only in inference: an autograd graph is not cached.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

from archcli.graph import tree_map
from archcli.wings.serving.launches.dtypes import DType
from archcli.wings.serving.launches.kernel import KernelCost, Stage
from archcli.wings.serving.launches.log import Log, LoggedLaunch
from archcli.wings.serving.launches.tensor import ShapeTensor, Sizes, TensorMemory

MOST_KNOWN = 1 << 14
"""The most cached calls: enough for several passes of a model with a hundred different layers."""


class OutputFacts(NamedTuple):
    """An output of a cached run.

    memory: the number of its memory; inputs and weights come first, then new ones.
    memory_shape: the shape of a new memory.
    shape, dtype, offset, requires_grad: as in torch.
    laid: its strides; None for row-major.
    repeats: steps of a loop that it stands for.
    """

    memory: int
    memory_shape: Sizes
    shape: Sizes
    dtype: DType
    laid: Sizes | None
    offset: int
    requires_grad: bool
    repeats: int


class KnownRun(NamedTuple):
    """Launches of a call, and its outputs in the nested tuples in which it returned them."""

    launches: tuple[tuple[Stage, KernelCost, int], ...]
    outputs: Any


_known: dict[Hashable, KnownRun] = {}


def _facts_of(x: ShapeTensor) -> tuple[Hashable, ...]:
    """The part of the cache's key that stands for a tensor."""
    # laid, not strides: these would be computed for every row-major tensor
    return x.shape, x.dtype, x.laid, x.offset, x.storage.shape, x.requires_grad, x.repeats


def run_once(log: Log, call: Hashable, inputs: Sequence[ShapeTensor], run: Callable[[], Any]) -> Any:
    """The result of `run`, or of an equal cached call; `inputs` are its inputs and weights.

    `call` is the rest of the key: all that launches depend on besides these tensors.
    """
    memories = [x.storage for x in inputs]
    # which inputs share a memory is part of the key: attention asks whether values lie in that of keys
    key = call, *map(_facts_of, inputs), *map(memories.index, memories)
    known = _known.get(key)
    if known is not None:
        for stage, kernel, times in known.launches:
            log.launches[LoggedLaunch(log.origin, stage, kernel)] += times
        return _outputs(known, memories)
    before, log.launches = log.launches, Counter()
    try:
        out = run()
    finally:
        launches, log.launches = log.launches, before
        before.update(launches)
    if len(_known) >= MOST_KNOWN:
        _known.clear()
    kernels = tuple([(launch.stage, launch.kernel, times) for launch, times in launches.items()])
    _known[key] = KnownRun(kernels, tree_map(lambda x: _facts_in(x, memories), ShapeTensor, out))
    return out


def _facts_in(x: ShapeTensor, memories: list[TensorMemory]) -> OutputFacts:
    """The facts of an output; a new memory is added to `memories`."""
    if x.storage not in memories:
        memories.append(x.storage)
    number, memory_shape = memories.index(x.storage), x.storage.shape
    return OutputFacts(number, memory_shape, x.shape, x.dtype, x.laid, x.offset, x.requires_grad, x.repeats)


def _outputs(known: KnownRun, memories: list[TensorMemory]) -> Any:
    """New outputs like those of a cached call, for inputs and weights in `memories`."""

    def output(facts: OutputFacts) -> ShapeTensor:
        if facts.memory == len(memories):
            memories.append(TensorMemory(facts.memory_shape))
        memory = memories[facts.memory]
        out = ShapeTensor(facts.shape, facts.dtype, facts.laid, memory, facts.offset)
        out.requires_grad, out.repeats = facts.requires_grad, facts.repeats
        return out

    return tree_map(output, OutputFacts, known.outputs)
