"""Kept: what autograd keeps of a training forward of a built model, or of one operation on its own."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import nn

from archcli.arith import Shape
from archcli.graph import Op
from archcli.modules import Model
from archcli.modules.spec.request import Request
from archcli.runtime.dtypes import DTYPES, default_dtype
from archcli.runtime.memory.models import WitnessSetting, loss_of, prepared
from archcli.runtime.memory.observe import observed
from archcli.runtime.memory.saved import KeptRecorder, KeptStorages, SavedByOp
from archcli.runtime.memory.storages import tensors_in
from archcli.runtime.model.leaves import ON_META, Assignment, StackedLinear, leaf_of
from archcli.runtime.model.node import EAGER, FUSED

DEFAULT = WitnessSetting()


def kept_of_pass(
    model: nn.Module, inputs: dict[str, torch.Tensor], outputs: Any = None
) -> tuple[KeptStorages, Any]:
    """What autograd keeps of one forward of the built model on its inputs by name; and what it returned.

    `outputs`, if given, is a function of what the model returned, such as a loss outside of it: it runs while
    torch is watched, its storages made by no operation ("").
    """
    given = [*model.parameters(), *model.buffers(), *inputs.values()]
    with KeptRecorder(given) as recorder, observed(model, recorder):
        out = model(**inputs)
        if outputs is not None:
            out = outputs(out)
    return recorder.kept(), out


def kept_of_model(
    spec: Model,
    batch_size: int,
    seq_len: int,
    setting: WitnessSetting = DEFAULT,
    *,
    loss: bool = False,
    source_len: int | None = None,
) -> KeptStorages:
    """What autograd keeps of an architecture's training forward, with the plain loss outside if asked.

    Example: `kept_of_model(load("gpt2"), 2, 64).bytes`.
    """
    request = Request("train", batch_size, seq_len, source_len=source_len).resolved()
    with prepared(spec, request, setting) as (model, inputs):
        after = partial(loss_of, targets=inputs["tokens"]) if loss and "targets" not in inputs else None
        return kept_of_pass(model, inputs, after)[0]


class OpRun(NamedTuple):
    """One run of an operation on tensors of its own: what its backward keeps, its inputs and outputs."""

    saved: tuple[SavedByOp, ...]
    inputs: tuple[torch.Tensor, ...]
    outputs: tuple[torch.Tensor, ...]


def kept_by_op(op: Op, *inputs: torch.Tensor | Shape, **options: Any) -> tuple[SavedByOp, ...]:
    """What the backward of one operation keeps, run in training on tensors of its own.

    Options are those of `run_of_op`.

    Example: `kept_by_op(Activate("silu", "silu"), (2, 64, 128))` is `(SavedByOp("in", 0, 32768, ""),)`.
    """
    return run_of_op(op, *inputs, **options).saved


def run_of_op(
    op: Op,
    *inputs: torch.Tensor | Shape,
    setting: WitnessSetting = DEFAULT,
    needs: Sequence[bool] | None = None,
    trained: bool = True,
    expert_of: torch.Tensor | None = None,
    n_experts: int | None = None,
) -> OpRun:
    """Run one operation in training on tensors of its own, and watch what its backward keeps.

    An input is a tensor, or a shape for one of the setting's dtype and device. `needs` says which inputs need
    a gradient: by default those given as shapes and floating-point tensors. With `trained` False its weights
    are frozen. Routed experts are given `n_experts` and the expert of each token.
    """
    tensors = _as_tensors(inputs, setting, needs)
    shapes = [tuple(x.shape) for x in tensors]
    with default_dtype(DTYPES[setting.dtype]), torch.device(setting.device):
        leaf = leaf_of(op, shapes, n_experts)
    given = [] if leaf is None else [*leaf.requires_grad_(trained).parameters(), *leaf.buffers()]
    with setting.operators(), KeptRecorder(given) as recorder:
        recorder.began(op.name, op, tensors)
        outputs = _run(op, leaf, tensors, setting, expert_of)
        recorder.returned(op.name, op, outputs)
        recorder.ended(op.name)
    saved = recorder.kept().by_op.get(op.name, ())
    return OpRun(saved, tuple(tensors), tuple(tensors_in(outputs)))


def _run(
    op: Op, leaf: nn.Module | None, tensors: Sequence[torch.Tensor], setting: WitnessSetting, expert_of: Any
) -> Any:
    """The outputs of the operation, run as the node of a built model in training runs it."""
    if leaf is None:
        form = EAGER if setting.attention == "eager" else FUSED
        return getattr(op.in_training(), form)(torch, {}, *tensors)
    leaf.train()
    for stack in (leaf,) if isinstance(leaf, StackedLinear) else ():
        stack.form = ON_META if setting.device == "meta" else "grouped"
    return leaf(*tensors) if expert_of is None else leaf(*tensors, routed=Assignment(expert_of))


def _as_tensors(
    inputs: Sequence[Any], setting: WitnessSetting, needs: Sequence[bool] | None
) -> list[torch.Tensor]:
    """The inputs as tensors of their own, which need gradients where `needs` says so."""
    dtype, device = DTYPES[setting.dtype], setting.device
    tensors = [
        x if isinstance(x, torch.Tensor) else torch.zeros(tuple(x), dtype=dtype, device=device)
        for x in inputs
    ]
    wanted = [x.is_floating_point() for x in tensors] if needs is None else needs
    return [x.detach().requires_grad_(want) for x, want in zip(tensors, wanted, strict=True)]
