"""Trace the kernels of a pass: every launch of a model's forward and backward, without torch."""

from __future__ import annotations

from collections import Counter
from typing import Any

from archcli.graph import Tensor, tree_map
from archcli.graph.kept import FP32, Execution
from archcli.kernels.autograd import run_backward
from archcli.kernels.dtypes import BY_NAME, NAMED
from archcli.kernels.filled import cache_before
from archcli.kernels.kernel import KernelRun
from archcli.kernels.log import Log, LoggedLaunch, logged
from archcli.kernels.tape import KernelTape, Weights
from archcli.kernels.tensor import ShapeTensor
from archcli.modules import Model
from archcli.modules.forms import formed
from archcli.modules.model import inferring
from archcli.modules.request import Request
from archcli.modules.trace import run_on
from archcli.recording.classes import class_of
from archcli.recording.operations import OpKey


def trace_kernels(
    model: Model, request: Request, execution: Execution | None = None, *, dtype: str = ""
) -> tuple[KernelRun, ...]:
    """The kernels of a pass in the order of their launches, equal ones of a row together.

    `dtype` is the model's, by default bf16 or fp32 by the execution's width. Training is the forward and
    the backward, without an optimizer. Raises ArchError for a function of torch whose kernels are not known.
    """
    execution, request = execution or Execution(), request.resolved()
    number = BY_NAME[dtype or ("fp32" if execution.width == FP32 else "bf16")]
    train = request.phase == "train"
    model, _ = formed(model if train else inferring(model), request)
    log = Log(execution.backend, records=train)
    tape = KernelTape([])
    tape.log, tape.weights, tape.training = log, Weights(number), train
    tape.run_as = "run_fused" if execution.fused else "run"
    cache = cache_before(model, request, execution, number)
    inputs = {
        name: ShapeTensor(_whole(spec.shape), NAMED["int64"] if spec.kind == "ids" else number)
        for name, spec in model.inputs(request).items()
    }
    with logged(log):
        output, _ = run_on(tape, model.adapted, request, inputs, cache)  # type: ignore[arg-type]
    if train:
        outputs = _tensors(output)
        gradients = [ShapeTensor(x.shape, x.dtype) for x in outputs]
        run_backward(log, outputs, gradients)
    return _runs(log.launches)


def _whole(shape: Any) -> tuple[int, ...]:
    return tuple(int(size) for size in shape)


def _tensors(tree: Any) -> list[ShapeTensor]:
    found: list[ShapeTensor] = []
    tree_map(lambda x: found.append(x.value), Tensor, tree)
    return found


def _runs(launches: Counter[LoggedLaunch]) -> tuple[KernelRun, ...]:
    return tuple(
        KernelRun(
            launch.origin.path,
            launch.stage,
            launch.kernel,
            class_of(OpKey(launch.origin.path, launch.stage, launch.kernel.name), launch.origin.parts),
            launch.origin.times * n,
        )
        for launch, n in launches.items()
    )
