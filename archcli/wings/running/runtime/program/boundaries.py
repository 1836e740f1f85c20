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
    """What the hooks call."""

    @property
    def complete(self) -> bool:
        """Whether no further step is measured."""

    def step_ends(self) -> None:
        """End a step, and begin the next."""

    def step_ends_before(self, module: nn.Module, inputs: Any) -> None:
        """End a step at the call of a module."""

    def begin_anew(self, steps: int) -> None:
        """Drop all measurements: there were so many steps, of a new leading optimizer."""


class TrainingThread:
    """The thread of the first step; once it has ended, that of the next step."""

    def __init__(self, ends: Callable[[], None]) -> None:
        self._ends = ends
        self._process, self._id = os.getpid(), 0
        self._end: ThreadEnd | None = None

    def is_here(self) -> bool:
        """Whether this is the thread, and not a forked process; where none is known this one is taken."""
        # not always the main thread: a program may train in another, and go on in a third
        if not self._id:
            self._id, in_main = threading.get_ident(), threading.main_thread()
            self._end = None if threading.current_thread() is in_main else ThreadEnd(self._ended)
        return os.getpid() == self._process and self.is_current()

    def is_current(self) -> bool:
        """Whether this is the thread; none is taken."""
        return threading.get_ident() == self._id

    def _ended(self) -> None:
        self._ends()
        self._id = 0


class StepHooks:
    """The hooks: on all optimizers, or on the outermost module, the first that is called.

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
        """Wait for no next module any longer; whether a step had its end there."""
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
        # where a hook of autograd steps: modes and tracers that begin within a backward end with it
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
        """Watch the passes of the first module alone."""
        if torch.compiler.is_compiling() or not self._thread.is_here():
            return
        self.remove()
        self._handles = [module.register_forward_pre_hook(PassHook(self._watcher.step_ends_before))]
        self._watcher.step_ends_before(module, inputs)
