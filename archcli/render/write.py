"""The one door by which archcli writes: text to standard output, or to a file that is whole or not there at all."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from archcli.errors import ArchError

BROKEN_PIPE = 141  # what a shell reports of a program that SIGPIPE ended: 128 + 13


def write(text: str, output: Path | None) -> None:
    """Write to `output`, or to standard output where that is None. Raises ArchError where that is impossible."""
    _guarded(
        output,
        lambda: _print(text) if output is None else _replace(Path(os.path.realpath(output)), text.encode()),
    )


def write_data(data: bytes, output: Path) -> None:
    """Write what is no text: a picture, a compressed trace. Raises ArchError where that is impossible."""
    _guarded(output, lambda: _replace(Path(os.path.realpath(output)), data))


def remember(path: Path, data: Any) -> None:
    """Keep something between runs, as JSON in a cache folder that is made where it is missing; where that is impossible, keep nothing."""
    import json

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _replace(path, json.dumps(data, indent=1).encode())
    except OSError:
        return


def _guarded(output: Path | None, write_it: Callable[[], None]) -> None:
    """Do it; a reader who has left ends the program quietly, what the system refuses is said in one line."""
    try:
        write_it()
    except BrokenPipeError:
        _mute()
        raise SystemExit(BROKEN_PIPE) from None
    except OSError as problem:
        if output is None:
            _mute()
        raise ArchError(
            f"cannot write {output or 'to standard output'}: {problem.strerror or problem}"
        ) from None


def _print(text: str) -> None:
    stream = sys.stdout
    encoding = stream.encoding or "utf-8"
    stream.write(text.encode(encoding, "replace").decode(encoding))
    stream.flush()


def _replace(path: Path, data: bytes) -> None:
    """Write beside the file, then take its place; a pipe or a device is written as it is."""
    if path.exists() and not path.is_file() and not path.is_dir():
        path.write_bytes(data)
        return
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_bytes(data)
        if path.exists():
            beside.chmod(path.stat().st_mode)
        beside.replace(path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise


def _mute() -> None:
    """Point standard output at nothing, so that what is still buffered does not fail once more when Python ends."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):  # a stream that is no file, as in a notebook
        return
