"""Write to standard output, into a pipe or device, or to files, which are replaced atomically."""

from __future__ import annotations

import errno
import io
import os
import stat
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from archcli.errors import ArchError, disarm

BROKEN_PIPE = 141  # what a shell reports of a program that SIGPIPE ended: 128 + 13
STDOUT = 1
STREAMS = {"-": STDOUT, "/dev/stdout": STDOUT, "/dev/stderr": 2}
DESCRIPTORS = {"/dev/fd", "/proc/self/fd"}
"""Folders of this process's open files by number, as a shell's `>(gzip > x.gz)` names one."""
# a write bit of owner, group or others
WRITABLE = 0o222


def descriptor(output: Path | None) -> int | None:
    """The descriptor of a path: 1 for None, `-` and /dev/stdout; None for any other path."""
    if output is None:
        return STDOUT
    number = output.name if str(output.parent) in DESCRIPTORS else ""
    return int(number) if number.isdecimal() else STREAMS.get(str(output))


def write(text: str, output: Path | None) -> None:
    """Write text to a file, or to standard output for None. Raises ArchError where it fails."""
    if descriptor(output) == STDOUT:
        _guarded(None, lambda: _print(text))
    else:
        write_data(text.encode(), output)


def write_data(data: bytes, output: Path | None) -> None:
    """Write bytes, a picture or a compressed trace, to a file. Raises ArchError where it fails."""
    number = descriptor(output)
    if output is None or number == STDOUT:
        _guarded(None, lambda: _send(data))
    elif number is not None:
        # a copy: closing it leaves the caller's own file open
        _guarded(output, lambda: _fill(os.dup(number), data))
    else:
        _guarded(output, lambda: _write_file(output, data))


def check_writable(output: Path | None) -> None:
    """Raise ArchError for a file that cannot be written, before anything is measured."""
    if output is not None and descriptor(output) is None:
        _guarded(output, lambda: _require_writable(output))


def check_new_files(folder: Path, names: Iterable[str]) -> None:
    """Raise ArchError for files that exist or cannot be written, before anything is computed."""
    if folder.exists() and not folder.is_dir():
        raise ArchError(f"{folder} is no folder", "name another")
    # exists() is false of a link to a file that is missing
    known = [name for name in names if (folder / name).exists() or (folder / name).is_symlink()]
    if known:
        raise ArchError(f"{folder / known[0]} exists", "move it away, or name another folder")
    check_writable(folder / ".archcli" if folder.exists() else folder)


def write_new_files(folder: Path, texts: Mapping[str, str]) -> None:
    """Write new files into a folder, created if missing. Raises ArchError where one exists.

    Files that were written before a failure are removed again.
    """
    check_new_files(folder, texts)
    is_new, written = not folder.exists(), []
    try:
        if is_new:
            folder.mkdir()
        for name, text in texts.items():
            write_data(text.encode(), folder / name)
            written.append(folder / name)
    # Ctrl-C included
    except BaseException as problem:
        with suppress(OSError):
            for path in written:
                path.unlink()
            if is_new:
                folder.rmdir()
        if isinstance(problem, OSError):
            raise ArchError(f"cannot make {folder}: {problem.strerror or problem}") from None
        raise


def tell(text: str) -> None:
    """Write lines to standard error, where it can be written."""
    # Python itself prints nothing where it is closed; AttributeError: it is None where the shell closed it
    with suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(f"{disarm(text)}\n")
        sys.stderr.flush()


def check_standard_output() -> None:
    """Raise ArchError where standard output cannot be written; else a line ends there."""
    _guarded(None, lambda: _print("\n"))


class ClosedOutput(io.TextIOBase):
    """Standard output where the shell has closed it; writing to it is an OSError."""

    @property
    def buffer(self) -> Any:
        """The stream for bytes, which is this one."""
        return self

    def write(self, _: Any) -> int:
        """Raise OSError."""
        raise OSError(errno.EBADF, "it is closed")


def replace_closed_streams() -> None:
    """Open a file in place of each closed standard stream; nothing can be read or printed there.

    No other file is then given its number, to be written by whoever prints.
    """
    closed = [name for name in ("stdin", "stdout", "stderr") if getattr(sys, name) is None]
    # the system gives the lowest free number: that of a closed stream
    for _ in closed:
        os.open(os.devnull, os.O_WRONLY)
    if "stdout" in closed:
        sys.stdout = ClosedOutput()


def remember(path: Path, data: Any) -> None:
    """Keep data between runs as JSON in a cache folder; failures are ignored."""
    import json

    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        _write_file(path, json.dumps(data, indent=1).encode())


def _guarded(output: Path | None, write_it: Callable[[], object]) -> None:
    """Run a writer: a closed pipe ends the program quietly, any other OSError becomes an ArchError."""
    try:
        write_it()
    # first, as it is an OSError
    except BrokenPipeError:
        _mute()
        raise SystemExit(BROKEN_PIPE) from None
    except (OSError, ValueError, OverflowError) as problem:
        if output is None:
            _mute()
        reason = (problem.strerror if isinstance(problem, OSError) else None) or problem
        raise ArchError(f"cannot write {output or 'to standard output'}: {reason}") from None


def _print(text: str) -> None:
    stream = sys.stdout
    encoding = stream.encoding or "utf-8"
    # what a terminal cannot show becomes ?, where print would raise
    stream.write(text.encode(encoding, "replace").decode(encoding))
    stream.flush()


def _send(data: bytes) -> None:
    """Write bytes to standard output, after the text it holds back."""
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.flush()


def _fill(opened: int, data: bytes) -> None:
    """Write bytes to an open file, and close it."""
    with open(opened, "wb") as stream:
        stream.write(data)


def _write_file(path: Path, data: bytes) -> None:
    """Replace a file by one that is complete, or write into a pipe or a device."""
    known = _require_writable(path)
    # renaming a file over a pipe or /dev/null would put the file in its place
    if known is not None and not stat.S_ISREG(known.st_mode):
        _fill(os.open(path, os.O_WRONLY), data)
        return
    # a link stays one: what it names is replaced
    target = Path(os.path.realpath(path))
    # in the same folder, as a rename does not reach another file system
    temporary = target.with_name(f".archcli-{os.urandom(8).hex()}")
    # O_EXCL: a file or a link that somebody has put there is neither followed nor written
    opened = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | vars(os).get("O_BINARY", 0), 0o666)
    try:
        if known is not None and hasattr(os, "fchmod"):
            # the file keeps its rights; a new one has those of the umask
            os.fchmod(opened, stat.S_IMODE(known.st_mode))
        _fill(opened, data)
        temporary.replace(target)
    except BaseException:
        # after Ctrl-C too, no half of a file is left
        temporary.unlink(missing_ok=True)
        raise


def _require_writable(path: Path) -> os.stat_result | None:
    """The status of the file, None where there is none yet. Raises OSError where it may not be written."""
    try:
        known = path.stat()
    except FileNotFoundError:
        if path.is_symlink():
            raise FileNotFoundError(0, "it is a link to a file that does not exist") from None
        if not os.access(path.absolute().parent, os.W_OK):
            path.parent.stat()  # which says what is wrong with it
            raise PermissionError(0, f"the folder {path.absolute().parent} may not be written") from None
        return None
    # a folder too: the system's own message says what is wrong
    if stat.S_ISREG(known.st_mode) or stat.S_ISDIR(known.st_mode):
        os.close(os.open(path, os.O_WRONLY))  # the system refuses links of others in /tmp as well
    if not known.st_mode & WRITABLE:  # which nobody refuses to root
        raise PermissionError(0, "it is read-only")
    return known


def _mute() -> None:
    """Redirect standard output to nothing, as flushing its buffer when Python ends would fail again."""
    with suppress(OSError, ValueError):  # a stream that is no file, as in a notebook
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
