"""Trace the kernels of a pass: every launch of a model's forward and backward, without torch."""

from __future__ import annotations

from collections import Counter
from typing import Any

from archcli.graph import Tensor, tree_map
from archcli.graph.kept import FP32, Execution
from archcli.modules import Model
from archcli.modules.models.model import inferring
from archcli.modules.spec.forms import formed
from archcli.modules.spec.request import Request
from archcli.modules.spec.trace import run_on
from archcli.wings.serving.launches.dtypes import BY_NAME, NAMED, DType
from archcli.wings.serving.launches.kernel import KernelCost, KernelRun, Stage
from archcli.wings.serving.launches.kernel_tape import (
    FoldedLayers,
    KernelTape,
    UnlikeLayersError,
    Weights,
    filled_cache,
)
from archcli.wings.serving.launches.log import (
    NOT_KNOWN,
    GradNode,
    Log,
    LoggedLaunch,
    logged,
    unknown_kernels,
    without_grad,
)
from archcli.wings.serving.launches.tensor import ShapeTensor
from archcli.wings.serving.recorded.classes import class_of
from archcli.wings.serving.recorded.operations import OpKey


def run_backward(
    log: Log, outputs: list[ShapeTensor], gradients: list[ShapeTensor], folded: FoldedLayers | None = None
) -> list[ShapeTensor]:
    """Launch the kernels of the backward from the outputs' gradients; returns the weights' gradients.

    `folded` compares the gradients that enter and leave layers, where one stands for others.
    """
    waiting: dict[int, dict[int, ShapeTensor]] = {}
    leaves: dict[int, ShapeTensor] = {}
    for output, gradient in zip(outputs, gradients, strict=True):
        if output.node is not None:
            waiting.setdefault(id(output.node), {})[output.output] = gradient
    log.stage = "backward"
    with logged(log), without_grad():
        for node in reversed(log.nodes):
            arrived = waiting.pop(id(node), None)
            if arrived is None:
                continue
            if folded is not None:
                folded.arrive(node, arrived)
            log.origin, log.repeats = node.origin, node.repeats
            try:
                of_inputs = node.backward(*[arrived.get(i) for i in range(node.outputs)])
            except NOT_KNOWN as problem:
                raise unknown_kernels(problem, node.origin) from problem
            for x, gradient in zip(node.inputs, of_inputs, strict=False):
                _accumulate(x, gradient, waiting, leaves, log)
    log.stage = "forward"
    if folded is not None:
        folded.end()
    return list(leaves.values())


def _accumulate(
    x: Any,
    gradient: ShapeTensor | None,
    waiting: dict[int, dict[int, ShapeTensor]],
    leaves: dict[int, ShapeTensor],
    log: Log,
) -> None:
    """Add a gradient to its tensor's sum of gradients, in the tensor's number type."""
    if gradient is None or not isinstance(x, ShapeTensor) or not x.requires_grad:
        return
    if gradient.dtype != x.dtype:
        gradient = gradient.to(x.dtype)
    node: GradNode | None = x.node
    place, key = (leaves, id(x)) if node is None else (waiting.setdefault(id(node), {}), x.output)
    if key in place:
        log.stage = "sums"
        gradient = place[key].add(gradient)
        log.stage = "backward"
    place[key] = gradient


def trace_kernels(
    model: Model, request: Request, execution: Execution | None = None, *, dtype: str = ""
) -> tuple[KernelRun, ...]:
    """The kernels of a pass in the order of their launches, equal ones of a row together.

    `dtype` is the model's, by default bf16 or fp32 by the execution's width. Training is the forward and
    the backward, without an optimizer. Raises ArchError for a function of torch whose kernels are not known.
    """
    execution = execution or Execution()
    try:
        log = Log()
        run_pass(log, model, request, execution, dtype, FoldedLayers(trains=request.phase == "train"))
    except UnlikeLayersError:
        log = Log()
        run_pass(log, model, request, execution, dtype)
    return _runs(log.launches)


def run_pass(
    log: Log,
    model: Model,
    request: Request,
    execution: Execution,
    dtype: str = "",
    folded: FoldedLayers | None = None,
) -> list[ShapeTensor]:
    """Run a pass, written to the log; returns what it leaves: outputs and the cache, or gradients.

    With `folded` one period of a pattern stands for all. Raises UnlikeLayersError where it may not.
    """
    request = request.resolved()
    number = BY_NAME[dtype or ("fp32" if execution.width == FP32 else "bf16")]
    train = request.phase == "train"
    model, _ = formed(model if train else inferring(model), request)
    cache = _cache_before(model, request, execution, number, folded)
    output, after = _run_forward(log, model, request, execution, number, cache, folded)
    outputs = _tensors(output)
    if not train:
        return [*outputs, *_tensors(after)]
    gradients = [ShapeTensor(x.shape, x.dtype) for x in outputs]
    return [*outputs, *run_backward(log, outputs, gradients, folded)]


def _run_forward(
    log: Log,
    model: Model,
    request: Request,
    execution: Execution,
    dtype: DType,
    cache: Any,
    folded: FoldedLayers | None = None,
) -> tuple[Any, Any]:
    """Run the forward of a pass, written to the log: what it returns, and the cache after it."""
    train = request.phase == "train"
    log.backend, log.records, tape = execution.backend, train, KernelTape([])
    tape.log, tape.weights, tape.training, tape.folded = log, Weights(dtype), train, folded
    tape.run_as = execution.run_as
    inputs: dict[str, Any] = {
        name: ShapeTensor(_whole(spec.shape), NAMED["int64"] if spec.kind == "ids" else dtype)
        for name, spec in model.inputs(request).items()
    }
    with logged(log):
        return run_on(tape, model.adapted, request, inputs, cache)


def _cache_before(
    model: Model, request: Request, execution: Execution, dtype: DType, folded: FoldedLayers | None
) -> Any:
    """The cache before a pass: None without a cache, () for an empty one, or that of earlier tokens.

    A step of one token launches the same whatever the layout of the states it reads. Several tokens read them
    as they were left, and so the pass before is run.
    """
    if not request.continues:
        return () if request.caches else None
    if request.phase == "decode" and not request.forms:
        return filled_cache(model, request.filling(), execution, dtype, folded=folded is not None)
    return _run_forward(Log(), model, request.filling(), execution, dtype, (), folded)[1]


def _whole(shape: Any) -> tuple[int, ...]:
    return tuple(int(size) for size in shape)


def _tensors(tree: Any) -> list[ShapeTensor]:
    tensors: list[ShapeTensor] = []
    tree_map(lambda x: tensors.append(x.value), Tensor, tree)
    return tensors


def _runs(launches: Counter[LoggedLaunch]) -> tuple[KernelRun, ...]:
    """Launches by row, those of all runs of its operation together."""
    total: Counter[tuple[str, Stage, KernelCost, str]] = Counter()
    for (origin, stage, kernel), n in launches.items():
        op_class = class_of(OpKey(origin.path, stage, kernel.name), origin.parts)
        total[origin.path, stage, kernel, op_class] += origin.times * n
    return tuple([KernelRun(*launched, times) for launched, times in total.items()])
