"""Observe: callbacks around every operation of the architecture that a built model runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any, Protocol

from torch import nn

from archcli.graph import Op
from archcli.wings.running.runtime.model.leaves import Assignment
from archcli.wings.running.runtime.model.node import ModuleNode, OpHook
from archcli.wings.running.runtime.model.op_log import join, op_hooks


class OpObserver(Protocol):
    """Callbacks at the start, the return and the end of an operation, with its path."""

    def began(self, path: str, op: Op, inputs: Sequence[Any]) -> None:
        """An operation begins on its inputs."""

    def returned(self, path: str, op: Op, outputs: Any) -> None:
        """An operation returned a tensor or a tuple of them."""

    def ended(self, path: str) -> None:
        """An operation ended."""


@contextmanager
def observed(model: nn.Module, observer: OpObserver) -> Iterator[None]:
    """Call the observer around every operation of the model within the block."""

    def hook_of(path: str) -> OpHook:
        def enter(op: Op, inputs: Sequence[Any], _: Assignment | None) -> AbstractContextManager[None]:
            return _within(observer, join(path, op.name), op, inputs)

        return enter

    nodes = {path: node for path, node in model.named_modules() if isinstance(node, ModuleNode)}
    for path, node in nodes.items():
        node.output_hook = partial(_returned, observer, path)
    try:
        with op_hooks(model, hook_of):
            yield
    finally:
        for node in nodes.values():
            vars(node).pop("output_hook", None)


@contextmanager
def _within(observer: OpObserver, path: str, op: Op, inputs: Sequence[Any]) -> Iterator[None]:
    observer.began(path, op, inputs)
    yield
    observer.ended(path)


def _returned(observer: OpObserver, path: str, op: Op, outputs: Any) -> None:
    observer.returned(join(path, op.name), op, outputs)
