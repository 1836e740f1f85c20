"""Observe: be told of every operation of the architecture that a built model runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from torch import nn

from archcli.graph import Op
from archcli.runtime.model.node import ModuleNode, NodeTape
from archcli.runtime.model.op_hooks import join


class OpObserver(Protocol):
    """Told of the inputs of an operation, by its path, and of what it returned."""

    def began(self, path: str, op: Op, inputs: Sequence[Any]) -> None:
        """An operation begins on its inputs."""

    def returned(self, path: str, op: Op, outputs: Any) -> None:
        """An operation returned a tensor or a tuple of them."""

    def ended(self, path: str) -> None:
        """An operation ended."""


@contextmanager
def observed(model: nn.Module, observer: OpObserver) -> Iterator[None]:
    """Tell the observer of every operation of the model within the block.

    Op hooks know nothing of results: for the block a tape's `_run` is one that tells them.
    """
    paths = {id(node): path for path, node in model.named_modules() if isinstance(node, ModuleNode)}
    run = NodeTape._run

    def observed_run(tape: NodeTape, op: Op, values: list[Any]) -> Any:
        path = join(paths[id(tape.node)], op.name)
        observer.began(path, op, values)
        outputs = run(tape, op, values)
        observer.returned(path, op, outputs)
        observer.ended(path)
        return outputs

    setattr(NodeTape, "_run", observed_run)  # noqa: B010  # mypy: a method is not assigned to
    try:
        yield
    finally:
        setattr(NodeTape, "_run", run)  # noqa: B010  # likewise
