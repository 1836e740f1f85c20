"""Labels: a named range of the trace around each operation, and a log of the autograd nodes it made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch import nn

from archcli.graph import Op
from archcli.runtime.model.leaves import Assignment
from archcli.runtime.model.node import OpHook
from archcli.runtime.model.op_hooks import join, op_hooks
from archcli.runtime.model.op_log import AutogradLog

PREFIX = "archcli:"
"""The start of a label, by which the walk through a trace tells it from torch's own ranges."""


class _LoggedRange:
    """A labelled range of the trace that also records its start and end in the log."""

    __slots__ = ("log", "path", "range")

    def __init__(self, log: AutogradLog, path: str) -> None:
        self.log, self.path = log, path
        self.range = torch._C._profiler._RecordFunctionFast(PREFIX + path)

    def __enter__(self) -> None:
        self.log.begin(self.path)
        self.range.__enter__()

    def __exit__(self, *exception: object) -> None:
        self.range.__exit__(*exception)
        self.log.end()


@contextmanager
def labelled(model: nn.Module) -> Iterator[AutogradLog]:
    """Label every operation of the model; yields the log of the autograd nodes they make."""
    log = AutogradLog()

    def hook_of(path: str) -> OpHook:
        def label(op: Op, _: Sequence[Any], __: Assignment | None) -> AbstractContextManager[Any]:
            if torch.is_grad_enabled():
                return _LoggedRange(log, join(path, op.name))
            unlogged: AbstractContextManager[Any] = torch._C._profiler._RecordFunctionFast(
                PREFIX + join(path, op.name)
            )
            return unlogged

        return label

    with op_hooks(model, hook_of):
        yield log
