"""Hooks of torch that find where a program's steps end, in the thread that trains."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import nn
from torch.nn.modules import module as all_modules
from torch.optim import optimizer as all_optimizers

from archcli.wings.running.recording.program import StepOn
from archcli.wings.running.runtime.program.steps import Leader, PassHook, ThreadEnd


class Watcher(Protocol):
    """The methods of a watch that the hooks call."""

    @property
    def complete(self) -> bool:
        """Whether no further step is measured."""

    def step_ends(self) -> None:
        """End a step, and begin the next."""

    def step_ends_before(self, module: nn.Module, inputs: Any) -> None:
        """End a step at the call of a module."""

    def begin_anew(self, steps: int) -> None:
        """Drop all measurements: a new optimizer ends the steps, `steps` of them so far."""


class TrainingThread:
    """The thread that trains: that of the first step, and once it has ended that of the next step."""

    def __init__(self, ends: Callable[[], None]) -> None:
        self._ends = ends
        self._process, self._id = os.getpid(), 0
        self._end: ThreadEnd | None = None

    def is_here(self) -> bool:
        """Whether this thread trains, in this process; the first thread that asks is taken."""
        # not always the main thread: a program may train in another, and go on in a third
        if not self._id:
            self._id, in_main = threading.get_ident(), threading.main_thread()
            self._end = None if threading.current_thread() is in_main else ThreadEnd(self._ended)
        return os.getpid() == self._process and self.is_current()

    def is_current(self) -> bool:
        """Whether this thread trains; unlike `is_here`, takes none."""
        return threading.get_ident() == self._id

    def _ended(self) -> None:
        self._ends()
        self._id = 0


class StepHooks:
    """Hooks at the end of a step: on all optimizers, or on the outermost module, which is called first.

    optimizers: the classes of those that stepped, in order.
    """

    def __init__(self, watcher: Watcher, thread: TrainingThread) -> None:
        self.optimizers: dict[str, None] = {}
        self._watcher, self._thread = watcher, thread
        self._leader = Leader()
        self._handles: list[Any] = []
        self._at_next_module: Any = None

    def begin(self, step_on: StepOn) -> None:
        """Set the hooks."""
        if step_on == "forward":
            self._handles = [all_modules.register_module_forward_pre_hook(self._first_module)]
        else:
            self._handles = [all_optimizers.register_optimizer_step_post_hook(self._stepped)]

    def remove(self) -> None:
        """Take the hooks away."""
        for handle in self._handles:
            handle.remove()

    def settle(self) -> bool:
        """Remove the hook on the next module; whether a step waited to end there."""
        waiting = self._at_next_module is not None
        if waiting:
            self._at_next_module.remove()
        return waiting

    def _stepped(self, optimizer: Any, *_: Any) -> None:
        # a compiled step is traced by torch's compiler, which must see nothing of this
        if torch.compiler.is_compiling() or not self._thread.is_here():
            return
        self.optimizers[type(optimizer).__name__] = None
        so_far = self._leader.choose(id(optimizer), too_late=self._watcher.complete)
        if so_far:
            self._watcher.begin_anew(so_far)
        if id(optimizer) != self._leader.optimizer:
            return
        # an optimizer may step in a hook of autograd (post_accumulate_grad_hook), within a backward: modes
        # and tracers that begin there end with the backward
        if not self._watcher.complete and torch._C._current_graph_task_id() >= 0:
            self._end_at_next_module()
        else:
            self._watcher.step_ends()

    def _end_at_next_module(self) -> None:
        """End the step when the next module is called outside of a backward."""

        def called(module: nn.Module, inputs: Any) -> None:
            if self._thread.is_here() and torch._C._current_graph_task_id() < 0:
                self._at_next_module.remove()
                self._at_next_module = None
                self._watcher.step_ends_before(module, inputs)

        # set once, though there may be an optimizer for each weight
        self._at_next_module = self._at_next_module or all_modules.register_module_forward_pre_hook(called)

    def _first_module(self, module: nn.Module, inputs: Any) -> None:
        """Move the hook from all modules to the first that is called, the outermost."""
        if torch.compiler.is_compiling() or not self._thread.is_here():
            return
        self.remove()
        self._handles = [module.register_forward_pre_hook(PassHook(self._watcher.step_ends_before))]
        self._watcher.step_ends_before(module, inputs)
