"""Op hooks: instrumentation around every operation of a built model, within a `with` block."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from torch import nn

from archcli.runtime.model.node import ModuleNode, OpHook


def set_op_hooks(model: nn.Module, hook_of: Callable[[str], OpHook]) -> None:
    """Instrument every node of the model with the hook made for its path."""
    for path, node in model.named_modules():
        if isinstance(node, ModuleNode):
            node.op_hook = hook_of(path)


def remove_op_hooks(model: nn.Module) -> None:
    """Remove the hooks of all operations of the model."""
    for node in model.modules():
        if isinstance(node, ModuleNode):
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
