"""Run each operation once for all calls that are alike: what it launches, and how its outputs lie.

What an operation launches follows from its settings and from what torch's functions see of the tensors that
it is given. So a call that is like an earlier one writes the same launches to the log, and returns tensors
like those of the earlier one: new ones, or views of the same of its inputs and weights. This holds where
nothing is recorded for a backward, in inference.
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
"""The most calls that are remembered: more than those of a hundred different layers, in several passes."""


class OutputFacts(NamedTuple):
    """An output of a known run.

    memory: its number; inputs and weights come first, then new ones. of: the shape of a new memory.
    shape, dtype, laid, offset, requires_grad, repeats: as torch's functions see the output.
    """

    memory: int
    of: Sizes
    shape: Sizes
    dtype: DType
    laid: Sizes | None
    offset: int
    requires_grad: bool
    repeats: int


class KnownRun(NamedTuple):
    """What a call launched, and its outputs, in the tuples that it returned them in."""

    launches: tuple[tuple[Stage, KernelCost, int], ...]
    outputs: Any


_known: dict[Hashable, KnownRun] = {}


def _facts_of(x: ShapeTensor) -> tuple[Hashable, ...]:
    """All that a function of torch sees of a tensor."""
    # strides as they are stated: row-major ones are not computed for it
    return x.shape, x.dtype, x.laid, x.offset, x.storage.shape, x.requires_grad, x.repeats


def run_once(log: Log, call: Hashable, inputs: Sequence[ShapeTensor], run: Callable[[], Any]) -> Any:
    """What `run` returns, run only where no call like it was; `inputs` are its inputs and weights.

    `call` tells apart all that its launches depend on but those tensors.
    """
    memories = [x.storage for x in inputs]
    # attention asks whether values lie in the memory of keys
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
    """The facts of an output; its memory is added to those that are known."""
    if x.storage not in memories:
        memories.append(x.storage)
    number, of = memories.index(x.storage), x.storage.shape
    return OutputFacts(number, of, x.shape, x.dtype, x.laid, x.offset, x.requires_grad, x.repeats)


def _outputs(known: KnownRun, memories: list[TensorMemory]) -> Any:
    """The outputs of a call like a known one, whose inputs and weights lie in these memories."""

    def output(facts: OutputFacts) -> ShapeTensor:
        if facts.memory == len(memories):
            memories.append(TensorMemory(facts.of))
        memory = memories[facts.memory]
        out = ShapeTensor(facts.shape, facts.dtype, facts.laid, memory, facts.offset)
        out.requires_grad, out.repeats = facts.requires_grad, facts.repeats
        return out

    return tree_map(output, OutputFacts, known.outputs)
