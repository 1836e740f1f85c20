"""Where the steps of a program end: which optimizer ends them, and the hooks of passes and threads.

`boundaries.py` sets the hooks on torch; here nothing of torch is called, and no program's object is kept.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from operator import attrgetter
from typing import Any

from torch import nn

STRAYED = 8
"""Steps of other optimizers after which one of them ends the program's steps."""


class Leader:
    """The optimizer that ends a program's steps, by its id: one that is kept would keep its weights.

    Of several the one that steps least often, of equal ones the last. What runs between their steps, as a
    generator's forward, is then in one step with its backward.
    """

    def __init__(self) -> None:
        self.optimizer = 0
        self._period: Counter[int] | None = Counter()
        self._strayed = 0

    def choose(self, optimizer: int, *, too_late: bool) -> int:
        """Note an optimizer's step; the steps so far of a leader that is new, else 0.

        A period is over when the first optimizer steps again after another; none is led anew `too_late`.
        """
        period, so_far = self._period, 0
        if period is not None and len(period) > 1 and optimizer == next(iter(period)):
            rare = [it for it, steps in period.items() if steps == min(period.values())]
            self._period = None
            if rare[-1] != self.optimizer and not too_late:
                self.optimizer, so_far = rare[-1], period[rare[-1]]
        elif period is not None:
            period[optimizer] += 1
        self._strayed = 0 if optimizer == self.optimizer else self._strayed + 1
        if not self.optimizer or self._strayed > STRAYED:
            self.optimizer, self._strayed = optimizer, 0
        return so_far


class PassHook:
    """A module's hook that a program may copy and save with the module: a copy does nothing."""

    def __init__(self, called: Callable[[nn.Module, Any], None]) -> None:
        self.called = called

    def __call__(self, module: nn.Module, inputs: Any) -> None:
        """Tell that the module is called."""
        self.called(module, inputs)

    def __reduce__(self) -> tuple[Any, ...]:
        # {}.get(module, inputs) are the inputs, and needs no archcli where it is loaded
        return attrgetter("get"), ({},)


class ThreadEnd:
    """Call a function in a thread when that thread ends: its trace can be ended nowhere else."""

    def __init__(self, ends: Callable[[], None]) -> None:
        self._local = threading.local()
        self._local.last = _Last(ends)


class _Last:
    """Python drops what is local to a thread at the end of it, in that thread."""

    def __init__(self, ends: Callable[[], None]) -> None:
        self.ends, self.thread = ends, threading.get_ident()

    def __del__(self) -> None:
        # of a daemon thread that the end of the program has stopped it is the main thread that drops it
        if threading.get_ident() == self.thread:
            self.ends()
