"""Questions of an assistant in turn: none holds the server, whatever it waits for."""

import asyncio
import threading
import time
from contextlib import suppress

import pytest

from archcli.wings.doors.commands.mcp import turns
from archcli.wings.doors.commands.mcp.turns import Turns


def computes():
    while True:
        pass


def computes_and_catches():
    while True:
        with suppress(Exception):
            sum(range(100))


def waits():
    threading.Event().wait(2)


@pytest.mark.long
@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize("endless", [computes, computes_and_catches, waits])
def test_a_question_beyond_the_limit_leaves_the_next_its_turn(endless, monkeypatch):
    monkeypatch.setattr(turns, "GRACE_S", 0.1)

    async def two():
        asked = Turns(limit_s=0.3)
        with pytest.raises(TimeoutError):
            await asked.ask(endless)
        return await asked.ask(lambda: "answered")

    begun = time.monotonic()
    assert asyncio.run(two()) == "answered"
    assert time.monotonic() - begun < 1.9


def test_a_cancelled_question_ends_where_it_computes():
    threads = []

    def question():
        threads.append(threading.current_thread())
        computes()

    async def cancelled():
        task = asyncio.create_task(Turns().ask(question))
        await asyncio.sleep(0.1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(cancelled())
    threads[0].join(2)
    assert not threads[0].is_alive()


def test_one_is_computed_at_a_time():
    at_once, most = [], []

    def question():
        at_once.append(1)
        time.sleep(0.01)
        most.append(len(at_once))
        at_once.pop()

    async def five():
        asked = Turns()
        await asyncio.gather(*(asked.ask(question) for _ in range(5)))

    asyncio.run(five())
    assert most == [1] * 5
