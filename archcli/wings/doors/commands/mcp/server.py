"""The MCP server: archcli's tools over standard input and output, by the SDK of the protocol."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import stat
import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from archcli import __version__
from archcli.errors import ArchError
from archcli.wings.doors.commands.mcp.answers import answer_of, as_text, drawing_of, refusal
from archcli.wings.doors.commands.mcp.tools import TOOLS, CancelledError, Drawing, Tool, tool_of
from archcli.wings.doors.commands.mcp.turns import Turns

INSTRUCTIONS = """\
archcli counts language models from their architecture: parameters, FLOPs, KV cache and memory as exact \
integers, and predicts time. Ask it rather than answering such a question from memory.
- size: params. Compute: flops. Cache of a context: kvcache. Memory of training or serving: memory.
- Does it run on a GPU, in which format, how fast: fit. Which GPUs, for how much: choose. Time or tokens per \
second: predict.
- Two or more models: compare. Where a number comes from: explain. Is a shape sane: check. \
Which shape meets conditions: sweep. What it looks like: draw.
A model is a preset's name, or the content of its config.json as an object or text. Change fields with set, \
such as ["d_ff=11008"].
Conventions: a FLOP is half a multiply-add (2 per multiply-add); parameters count tied tensors once; sizes \
are bytes, GiB 2^30; 8k is 8,000 and 8K is 8,192. Counts are exact, predicted times come with a range.
An answer has at most 4 kB and says what it leaves out; rows=true gives every row. `command` is the command \
line of the same answer. Notes and errors name options as that has them: --seq-len is seq_len.
Repeat figures as they are, with the convention, and round only in prose."""

READS_ONLY = types.ToolAnnotations(
    read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)


def serve(folder: Path | None) -> None:
    """Answer until the end of input. Raises ArchError where standard output cannot be written."""
    _refuse_device()
    # the SDK logs a traceback for each line that is no message; the client gets an error for it anyway
    logging.getLogger("mcp").addHandler(logging.NullHandler())
    logging.getLogger("mcp").propagate = False
    unwritable = False
    try:
        asyncio.run(_serve(folder))
    except* BrokenPipeError:
        pass  # the client is gone
    except* OSError:
        unwritable = True  # an error raised here would be in a group
    if unwritable:
        raise ArchError(
            "cannot write to standard output", "an assistant reads it: start archcli mcp from one"
        )


def _refuse_device() -> None:
    """Raise ArchError for a device as input: /dev/zero has no newline, the SDK would read for ever."""
    if sys.stdin is None or sys.stdin.isatty():
        return
    try:
        opened = os.fstat(sys.stdin.fileno())
    except (OSError, ValueError):  # closed, which the SDK finds by itself
        return
    if stat.S_ISCHR(opened.st_mode) and opened.st_rdev != Path(os.devnull).stat().st_rdev:
        raise ArchError("standard input is a device", "an assistant writes to it: start archcli mcp from one")


async def _serve(folder: Path | None) -> None:
    server = server_of(folder)
    # standard output is the protocol's: the SDK sends what else is printed to standard error
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


def server_of(folder: Path | None = None) -> Server[Any]:
    """The server of the tools, which reads no files but those in `folder`."""
    turns = Turns()

    async def list_tools(_: Any, __: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_listed(tool) for tool in TOOLS.values()])

    async def call_tool(_: Any, request: types.CallToolRequestParams) -> types.CallToolResult:
        stop = Event()
        question = partial(result_of, request.name, request.arguments or {}, folder, stop)
        try:
            return await turns.ask(question)
        except TimeoutError:
            what = f"{request.name} is not answered within {turns.limit_s:.0f} s"
            return _failed(f"{what}: ask for less, or by the command line")
        finally:
            stop.set()

    return Server(
        "archcli",
        version=__version__,
        title="archcli",
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def _listed(tool: Tool) -> types.Tool:
    return types.Tool(
        name=tool.name,
        description=tool.description,
        input_schema=tool.schema,
        annotations=READS_ONLY,
    )


def result_of(
    name: str, arguments: Mapping[str, Any], folder: Path | None, stop: Event
) -> types.CallToolResult:
    """The answer of a tool, or an error that says what to ask instead."""
    try:
        return _answered(tool_of(name), arguments, folder, stop)
    except ArchError as error:
        return _failed(refusal(error))
    except CancelledError:
        return _failed("cancelled")
    except Exception as fault:  # noqa: BLE001 - the client gets a line, and the server goes on
        kind = type(fault).__name__
        return _failed(f"a fault of archcli {__version__}, not of the question: {kind} in {name}")


def _answered(
    tool: Tool, arguments: Mapping[str, Any], folder: Path | None, stop: Event
) -> types.CallToolResult:
    question = tool.call(arguments, folder, stop)
    question.call.tick()
    answered = tool.answer(question.call)
    if not isinstance(answered, Drawing):
        noted = replace(answered, notes=(*answered.notes, *question.notes))
        return _result(answer_of(noted, question.line, tool, rows=question.rows))
    return _result(drawing_of(answered, question.line), *_svg(answered))


def _svg(drawing: Drawing) -> list[types.EmbeddedResource]:
    """The SVG of a drawing as a resource, where it was asked for."""
    if not drawing.svg:
        return []
    name = re.sub(r"[^\w.-]+", "-", drawing.name, flags=re.ASCII)
    uri = f"archcli://draw/{name}.svg"
    contents = types.TextResourceContents(uri=uri, mime_type="image/svg+xml", text=drawing.svg)
    return [types.EmbeddedResource(type="resource", resource=contents)]


def _result(answer: dict[str, Any], *resources: types.EmbeddedResource) -> types.CallToolResult:
    text = types.TextContent(type="text", text=as_text(answer))
    return types.CallToolResult(content=[text, *resources], structured_content=answer)


def _failed(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=True)
