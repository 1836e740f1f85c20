"""Seconds until `archcli mcp` answers `initialize`, beside a server of the protocol's package alone.

usage: python benchmarks/assistant_start.py [--rounds N] [--strict]

Both are started N times, in turns, by the same few lines; medians are compared, and with --strict the exit
code is 1 where archcli takes a second more. Then the same for the first list of tools, and the first answer.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from typing import Any, NamedTuple

MOST_S = 1.0
"""What archcli may take beyond the package alone."""
BARE = """
import asyncio
from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

async def tools(context, params):
    return types.ListToolsResult(tools=[])

async def call(context, params):
    return types.CallToolResult(content=[])

async def main():
    server = Server("bare", on_list_tools=tools, on_call_tool=call)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())

asyncio.run(main())
"""
SERVERS = {"bare": ["-c", BARE], "archcli": ["-m", "archcli", "mcp"]}
CLIENT = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "start", "version": "1"},
}
STEPS: dict[str, tuple[str, dict[str, Any]]] = {
    "initialize": ("initialize", CLIENT),
    "tools/list": ("tools/list", {}),
    "first answer": ("tools/call", {"name": "params", "arguments": {"model": "llama-3.1-8b"}}),
}


class Started(NamedTuple):
    """Seconds from the start of a process to each answer."""

    initialize: float
    listed: float
    answered: float


def started(command: list[str]) -> Started:
    """Start a server, and ask one thing after the other."""
    begun, times = time.perf_counter(), []
    process = subprocess.Popen(
        [sys.executable, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    if process.stdin is None or process.stdout is None:
        sys.exit("no pipes")
    for number, (method, params) in enumerate(STEPS.values()):
        asked = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        process.stdin.write(json.dumps(asked) + "\n")
        process.stdin.flush()
        if "result" not in json.loads(process.stdout.readline()):
            sys.exit(f"{command[:3]} does not answer {method}")
        times.append(time.perf_counter() - begun)
        if not number:
            process.stdin.write('{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')
    process.communicate(timeout=60)
    return Started(*times)


def main() -> int:
    """Print a row for each step; the exit code."""
    parser = argparse.ArgumentParser(description="How late archcli mcp answers.")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--strict", action="store_true")
    arguments = parser.parse_args()
    taken: dict[str, list[Started]] = {name: [] for name in SERVERS}
    for _ in range(arguments.rounds):
        for name, command in SERVERS.items():
            taken[name].append(started(command))
    print(f"{'until':14} {'package alone':>14} {'archcli mcp':>12} {'beyond':>8} {'ratio':>6}")
    beyond = []
    for i, step in enumerate(STEPS):
        alone, ours = (statistics.median(times[i] for times in taken[name]) for name in SERVERS)
        beyond.append(ours - alone)
        print(f"{step:14} {alone:12.2f} s {ours:10.2f} s {ours - alone:6.2f} s {ours / alone:6.2f}")
    print(
        f"initialize may take {MOST_S:g} s beyond the package: {'met' if beyond[0] <= MOST_S else 'MISSED'}"
    )
    return int(arguments.strict and beyond[0] > MOST_S)


if __name__ == "__main__":
    sys.exit(main())
