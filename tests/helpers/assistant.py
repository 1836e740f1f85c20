"""Ask `archcli mcp` as an assistant does: by the client of the protocol's own SDK."""

import json
import os
import sys
from pathlib import Path

import anyio
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from archcli.wings.doors.commands.mcp.server import server_of

ROOT = Path(__file__).parents[2]
COMMAND = ("-m", "archcli", "mcp")


def in_process(ask, folder=None):
    """What `ask(client)` returns, of a server in this process."""

    async def run():
        async with Client(server_of(folder)) as client:
            return await ask(client)

    return anyio.run(run)


def over_stdio(ask, *args):
    """What `ask(client)` returns, of `archcli mcp` in a process of its own."""
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    server = StdioServerParameters(command=sys.executable, args=[*COMMAND, *args], env=env)

    async def run():
        async with Client(stdio_client(server)) as client:
            return await ask(client)

    return anyio.run(run)


def answers(asked, folder=None):
    """The result of each (tool, arguments), in one session."""

    async def ask(client):
        return [await client.call_tool(name, arguments) for name, arguments in asked]

    return in_process(ask, folder)


def answer(name, folder=None, **arguments):
    """The structured answer of a tool, which must not fail; the text beside it is the same."""
    (result,) = answers([(name, arguments)], folder)
    assert not result.is_error, result.content[0].text
    assert json.loads(result.content[0].text) == result.structured_content
    return result.structured_content


def refused(name, folder=None, **arguments):
    """The text of an error of a tool, which must fail."""
    (result,) = answers([(name, arguments)], folder)
    assert result.is_error, result.content[0].text
    assert "Traceback" not in result.content[0].text
    return result.content[0].text
