"""Questions in turn: one is computed at a time, and none holds the server for ever."""

from __future__ import annotations

import asyncio
import ctypes
from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from typing import TypeVar

from archcli.wings.doors.commands.mcp.tools import CancelledError

LIMIT_S = 120.0
"""Longest time of a question, which may be a sweep of many thousands of shapes."""
GRACE_S = 5.0
"""Longest wait for the thread of a question that nobody waits for any longer."""

T = TypeVar("T")


class Turns:
    """Questions are computed one after the other: they share caches, and Python runs one thread at a time."""

    def __init__(self, limit_s: float = LIMIT_S) -> None:
        self.limit_s = limit_s
        self._turn = asyncio.Lock()
        self._last: Thread | None = None

    async def ask(self, question: Callable[[], T]) -> T:
        """The answer of a question. Raises TimeoutError where it takes longer than the limit."""
        async with self._turn:
            answer = asyncio.get_running_loop().create_future()
            # a daemon: one that hangs in the system keeps neither the next question nor the end of the server
            thread = Thread(target=_answer, args=(question, answer, self._last), daemon=True)
            self._last = thread
            thread.start()
            try:
                return await asyncio.wait_for(answer, self.limit_s + GRACE_S)
            finally:
                if thread.is_alive():
                    _interrupt(thread)


def _answer(question: Callable[[], T], answer: asyncio.Future[T], before: Thread | None) -> None:
    # one that is interrupted before or after it computes
    with suppress(CancelledError):
        if before is not None:
            before.join(GRACE_S)
        got = question()
        # the end of the server closes the loop
        with suppress(RuntimeError):
            answer.get_loop().call_soon_threadsafe(_settle, answer, got)


def _settle(answer: asyncio.Future[T], got: T) -> None:
    if not answer.done():
        answer.set_result(got)


def _interrupt(thread: Thread) -> None:
    """Raise CancelledError in a thread that computes, as Ctrl-C raises KeyboardInterrupt in the main one."""
    ident = ctypes.c_ulong(thread.ident or 0)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ident, ctypes.py_object(CancelledError))
