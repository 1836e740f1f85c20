"""Run one question at a time, each with a time limit."""

from __future__ import annotations

import asyncio
import ctypes
from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from typing import TypeVar

from archcli.wings.doors.commands.mcp.tools import CancelledError

LIMIT_S = 120.0
"""Time limit of a question; a sweep of many thousands of shapes takes minutes."""
GRACE_S = 5.0
"""Longest wait for the thread of a question that was given up."""

T = TypeVar("T")


class Turns:
    """Runs questions one after the other: they share caches, and Python runs one thread at a time."""

    def __init__(self, limit_s: float = LIMIT_S) -> None:
        self.limit_s = limit_s
        self._turn = asyncio.Lock()
        self._last: Thread | None = None

    async def ask(self, question: Callable[[], T]) -> T:
        """The answer of a question. Raises TimeoutError where it takes longer than the limit."""
        async with self._turn:
            answer = asyncio.get_running_loop().create_future()
            # a daemon: a thread that hangs in a system call must not block the next question or the exit
            thread = Thread(target=_answer, args=(question, answer, self._last), daemon=True)
            self._last = thread
            thread.start()
            try:
                return await asyncio.wait_for(answer, self.limit_s + GRACE_S)
            finally:
                if thread.is_alive():
                    _interrupt(thread)


def _answer(question: Callable[[], T], answer: asyncio.Future[T], before: Thread | None) -> None:
    # the interrupt may arrive before or after the computation
    with suppress(CancelledError):
        if before is not None:
            before.join(GRACE_S)
        value = question()
        # RuntimeError: the server has ended, and closed the loop
        with suppress(RuntimeError):
            answer.get_loop().call_soon_threadsafe(_settle, answer, value)


def _settle(answer: asyncio.Future[T], value: T) -> None:
    if not answer.done():
        answer.set_result(value)


def _interrupt(thread: Thread) -> None:
    """Raise CancelledError in a running thread, as Ctrl-C raises KeyboardInterrupt in the main thread."""
    ident = ctypes.c_ulong(thread.ident or 0)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ident, ctypes.py_object(CancelledError))
