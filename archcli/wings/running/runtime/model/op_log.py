"""Hooks around every operation of a built model, and the log of those that ran in a pass."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch import nn

from archcli.graph import Op
from archcli.wings.running.runtime.model.leaves import Assignment
from archcli.wings.running.runtime.model.node import ModuleNode, OpHook
from archcli.wings.serving.recorded.operations import OpInstance, Phase


def set_op_hooks(model: nn.Module, hook_of: Callable[[str], OpHook]) -> None:
    """Instrument every node of the model with the hook made for its path."""
    for path, node in model.named_modules():
        if isinstance(node, ModuleNode):
            node.op_hook = hook_of(path)


def remove_op_hooks(model: nn.Module) -> None:
    """Remove the hooks of all operations of the model."""
    for node in model.modules():
        if isinstance(node, ModuleNode):
            # the class attribute, None, is visible again
            vars(node).pop("op_hook", None)


@contextmanager
def op_hooks(model: nn.Module, hook_of: Callable[[str], OpHook]) -> Iterator[None]:
    """Instrument the model's operations within the block; remove all hooks afterwards."""
    set_op_hooks(model, hook_of)
    try:
        yield
    finally:
        remove_op_hooks(model)


def join(path: str, name: str) -> str:
    """The path of an operation within a node."""
    return f"{path}.{name}" if path else name


class AutogradLog:
    """The operations of one pass by autograd's sequence numbers.

    Entries are (number, path) at the start and (number, "") at the end of an operation, which made all
    autograd nodes with numbers in between.
    """

    def __init__(self) -> None:
        self.entries: list[tuple[int, str]] = []

    def begin(self, path: str) -> None:
        """Record the start of an operation."""
        self.entries.append((_next_number(), path))

    def end(self) -> None:
        """Record the end of the operation begun last."""
        self.entries.append((_next_number(), ""))

    def owner(self, sequence: int) -> str:
        """The path of the operation that made an autograd node, by its sequence number; else empty."""
        # of entries with one number the last counts: an operation that made no node has the same twice
        place = bisect_right(self.entries, sequence, key=lambda entry: entry[0])
        return self.entries[place - 1][1] if place else ""


def _next_number() -> int:
    # the number of the next node of this thread, without using it up
    number: int = torch._C._autograd._get_sequence_nr()
    return number


class OpLog:
    """The operations of the architecture that ran in one pass.

    autograd: which operation made an autograd node.
    ran: operations by path.
    current: the path of the running one.
    expert_of: the expert of each token, by the path of an operation with weights within routed experts.
    """

    def __init__(self) -> None:
        self.autograd = AutogradLog()
        self.ran: dict[str, OpInstance] = {}
        self.expert_of: dict[str, torch.Tensor] = {}
        self.current = ""

    def place(self) -> tuple[str, Phase]:
        """The path and phase of the running operation: forward, or backward within autograd."""
        # None outside of the engine; a recomputed forward runs within it and counts as backward
        node = torch._C._current_autograd_node()
        if node is None:
            return self.current, "forward"
        return self.autograd.owner(node._sequence_nr()), "backward"

    @contextmanager
    def entered(self, path: str) -> Iterator[None]:
        """Log the operation at the path as running within the block."""
        self.autograd.begin(path)
        self.current = path
        yield
        self.current = ""
        self.autograd.end()


@contextmanager
def op_log(model: nn.Module, *, experts: bool = True) -> Iterator[OpLog]:
    """Log every operation of the model that runs; without `experts` no tensor is kept alive."""
    log = OpLog()
    nodes = {path: node for path, node in model.named_modules() if isinstance(node, ModuleNode)}

    def hook_of(path: str) -> OpHook:
        def enter(op: Op, inputs: Sequence[Any], routed: Assignment | None) -> AbstractContextManager[None]:
            at = join(path, op.name)
            log.ran[at] = OpInstance(at, op, tuple([tuple(x.shape) for x in inputs]))
            if experts and routed is not None and nodes[path].part(op.name) is not None:
                log.expert_of[at] = routed.expert_of
            return log.entered(at)

        return enter

    with op_hooks(model, hook_of):
        yield log
