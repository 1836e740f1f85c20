"""Write text to standard output, or to a file that is replaced atomically."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from archcli.errors import ArchError

BROKEN_PIPE = 141  # what a shell reports of a program that SIGPIPE ended: 128 + 13


def write(text: str, output: Path | None) -> None:
    """Write text to a file, or to standard output where `output` is None; ArchError where that fails."""
    if output is None:
        _guarded(output, lambda: _print(text))
    else:
        write_data(text.encode(), output)


def write_data(data: bytes, output: Path) -> None:
    """Write bytes to a file, a picture or a compressed trace; ArchError where that fails."""
    _guarded(output, lambda: _replace(Path(os.path.realpath(output)), data))


def remember(path: Path, data: Any) -> None:
    """Keep data between runs as JSON in a cache folder, which is made if missing; failures are ignored."""
    import json

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _replace(path, json.dumps(data, indent=1).encode())
    except OSError:
        return


def _guarded(output: Path | None, write_it: Callable[[], None]) -> None:
    """Run a writer: a closed pipe ends the program quietly, any other OSError becomes an ArchError."""
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
    """Write a temporary file and rename it to the path; write into a pipe or a device directly."""
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
    """Redirect standard output to nothing, as flushing its buffer when Python ends would fail again."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):  # a stream that is no file, as in a notebook
        return
