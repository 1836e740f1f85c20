"""Contractions that torch executes, forward and backward, by operation of the architecture.

FlopCounterMode gives totals per module, but attributes backward passes wrongly and ignores operations without
a formula. Here each operation is logged, torch's own formulas are used, and what they do not know is listed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from archcli.wings.running.runtime.model.build import MismatchError
from archcli.wings.running.runtime.model.op_log import OpLog, op_log
from archcli.wings.serving.recorded.operations import OpInstance

JOINS = {
    *("cat", "stack", "copy", "index_copy", "index_add", "index_put", "scatter", "scatter_add"),  # move
    "masked_scatter",
    *(
        "native_layer_norm",
        "native_layer_norm_backward",
        "_fused_rms_norm",
        "_fused_rms_norm_backward",
    ),  # reduce, then scale
    *(
        "_native_batch_norm_legit",
        "_native_batch_norm_legit_no_training",
        "native_batch_norm",
        "native_batch_norm_backward",
        "native_group_norm",
        "native_group_norm_backward",
    ),
    *("_softmax_backward_data", "_log_softmax_backward_data"),
    # a derivative times a gradient, not tagged as pointwise
    *("elu_backward", "softplus_backward", "hardtanh_backward"),
    *("hardsigmoid_backward", "hardswish_backward"),
    *("avg_pool2d_backward", "max_pool2d_with_indices_backward"),
    "linalg_solve_triangular",  # one row after the other: counted as element-wise work of the delta rule
}
"""Operations on several floating tensors that torch does not call pointwise and that contract nothing."""


def _conv_backward(*args: Any, out_val: Any) -> int:
    """FLOPs of a convolution's gradients, whose `args` end with groups and a mask of those asked for.

    torch's formula leaves the groups out of the weight's gradient, so that a depthwise one costs C times what
    it does.
    """
    theirs = flop_registry[torch.ops.aten.convolution_backward]
    *before, groups, (of_input, of_weight, _) = args
    to_input: int = theirs(*before, groups, [of_input, False, False], out_val=out_val)
    to_weight: int = theirs(*before, groups, [False, of_weight, False], out_val=out_val)
    return to_input + to_weight // groups


_conv_backward._get_raw = True  # type: ignore[attr-defined]  # torch: hand over tensors, not their shapes
FORMULAS: dict[Any, Any] = {torch.ops.aten.convolution_backward: _conv_backward}
"""Formulas in place of torch's own."""


class Contractions(TorchDispatchMode):
    """A dispatch mode that records matrix products by the path of the architecture's operation.

    `forward` and `backward` hold FLOPs of contractions by path; `unknown` counts contractions without a
    formula, by (operation, path); `uncounted` counts everything else by operation.
    """

    def __init__(self, log: OpLog) -> None:
        super().__init__()
        self.forward: Counter[str] = Counter()
        self.backward: Counter[str] = Counter()
        self.unknown: Counter[tuple[str, str]] = Counter()
        self.uncounted: Counter[str] = Counter()
        self._log = log

    @property
    def ran(self) -> dict[str, OpInstance]:
        """Every operation of the architecture that ran, with the shapes it was given."""
        return self._log.ran

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the torch operation and record it."""
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        path, phase = self._log.place()
        packet = func.overloadpacket
        name = packet.__name__.rstrip("_")
        if packet in flop_registry:
            formula = FORMULAS.get(packet, flop_registry[packet])
            counts = self.forward if phase == "forward" else self.backward
            counts[path] += formula(*args, **kwargs, out_val=out)
        elif name not in JOINS and torch.Tag.pointwise not in func.tags and _multiplies(args, kwargs):
            self.unknown[name, path] += 1
        else:
            self.uncounted[name] += 1
        return out


@contextmanager
def contractions(model: nn.Module) -> Iterator[Contractions]:
    """Log the model's operations and what each executes.

    Raises MismatchError, naming the last one, where torch cannot go on.
    """
    with op_log(model) as log:
        try:
            with Contractions(log) as entered:
                yield entered
        except RuntimeError as problem:
            raise MismatchError(
                next(reversed(log.ran), ""), "runs", "yes", str(problem).splitlines()[0]
            ) from problem


def _multiplies(args: Any, kwargs: Any) -> bool:
    """Whether an operation has two floating tensors to contract."""
    return sum(isinstance(x, torch.Tensor) and x.is_floating_point() for x in tree_leaves((args, kwargs))) > 1
