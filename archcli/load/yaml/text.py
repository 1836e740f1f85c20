"""Decode bytes to text: UTF-8, one kind of line ending, no control characters, a bounded size."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from errno import EINVAL
from pathlib import Path
from stat import S_ISBLK, S_ISCHR, S_ISFIFO
from typing import BinaryIO, NamedTuple

from archcli.errors import ArchError, Problem
from archcli.load.yaml.nodes import Place, Source

# of a YAML; presets have at most a few KB
MOST_BYTES = 1 << 20
MOST_JSON = 8 << 20
"""A config.json may list the quantization of every matrix: 3 MB of a model of experts."""

STDIN_NAME = "<stdin>"
BOM = "\ufeff"
# bytes that tell a JSON from a YAML
START = 1000
HANDED_OVER = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")
"""Paths of what is open already."""
_REACH: ContextVar[tuple[Path, ...] | None] = ContextVar("_REACH", default=None)
"""Folders whose files may be read; None where all may."""
_OPENED: ContextVar[tuple[Path, ...]] = ContextVar("_OPENED", default=())
"""Files that led to what is read now."""
MOST_OPENED = 8
"""Files that lead from one to the next: an adapter, a Modelfile, and the model of it are three."""


class Text(NamedTuple):
    """A decoded text, and the Source that places in it refer to."""

    content: str
    source: Source


@contextmanager
def reading_only(*folders: Path) -> Iterator[None]:
    """Until the end, refuse model files outside of `folders`, all where there is none, and the hub.

    For models that a stranger gives: an adapter or a Modelfile names another file, and a file may be a link.
    """
    token = _REACH.set(tuple(folder.resolve() for folder in folders))
    try:
        yield
    finally:
        _REACH.reset(token)


def may_read(path: Path) -> bool:
    """Whether a file may be read now; no file system is asked where none may."""
    folders = _REACH.get()
    return folders is None or any(path.resolve().is_relative_to(folder) for folder in folders)


@contextmanager
def opened(path: Path) -> Iterator[None]:
    """Until the end, the file may lead to others. Raises ArchError where it is open already.

    A Modelfile names a folder, an adapter its base: a file's own folder would be read for ever.
    """
    files, now = _OPENED.get(), path.resolve()
    if now in files:
        raise ArchError(Problem("this file leads back to itself", "name another model in it", path=str(path)))
    if len(files) >= MOST_OPENED:
        what = f"more than {MOST_OPENED} files, each of which names the next"
        raise ArchError(Problem(what, "give the last of them", path=str(path)))
    token = _OPENED.set((*files, now))
    try:
        yield
    finally:
        _OPENED.reset(token)


def refuse_beyond(path: Path, name: str) -> None:
    """Raise ArchError for a file that may not be read now."""
    if not may_read(path):
        raise ArchError(Problem("outside of what is read here", "give the config.json itself", path=name))


def refuse_hub(name: str) -> None:
    """Raise ArchError for a repository of the hub where files alone may be read."""
    if _REACH.get() is not None:
        raise ArchError(Problem("the hub is not asked here", "give the config.json itself", path=name))


def read_start(path: Path, name: str, most: int = MOST_JSON) -> bytes:
    """The first bytes of a file, just enough to detect a text that is too long."""
    refuse_beyond(path, name)
    try:
        _refuse_endless(path, name)
        with path.open("rb") as file:
            return file.read(most + 1)
    except OSError as error:
        raise ArchError(Problem(f"cannot be read: {error.strerror}", path=name)) from None


def _refuse_endless(path: Path, name: str) -> None:
    """Raise ArchError for a named pipe, which may have no writer, and for a device such as /dev/zero.

    What a shell hands over under /dev/fd, such as `<(cat config.json)`, is a pipe with a writer.
    """
    mode = path.stat().st_mode
    kind = "a named pipe" if S_ISFIFO(mode) else "a device" if S_ISCHR(mode) or S_ISBLK(mode) else ""
    if kind and not str(path).startswith(HANDED_OVER):
        raise ArchError(Problem(f"{kind}, no file", "standard input is read as -", path=name))


def open_regular(path: Path) -> BinaryIO:
    """Open a file that nobody named, such as one of a folder. Raises OSError for a pipe or a device.

    To open a named pipe is to wait for its writer, perhaps for ever.
    """
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise OSError(EINVAL, "a pipe or a device, no file", str(path))
    return path.open("rb")


def read_stdin(most: int = MOST_JSON) -> bytes:
    """The first bytes of standard input, one more than `most` where it is longer."""
    if sys.stdin is None:
        raise ArchError(Problem("standard input is closed", "give a file", path=STDIN_NAME))
    try:
        return sys.stdin.buffer.read(most + 1)
    except OSError as error:
        raise ArchError(Problem(f"cannot be read: {error.strerror}", path=STDIN_NAME)) from None


def decode(data: bytes, name: str) -> str:
    """The text of a UTF-8 file, with or without a byte order mark.

    ArchError where it is binary, too large or in another encoding.
    """
    # the limit follows from the first characters, before the whole is decoded
    refuse_huge(len(data), name, _size_limit(data[:START].decode("utf-8", "ignore")))
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise ArchError(Problem("the text is UTF-16", "save it as UTF-8", path=name))
    if b"\0" in data:
        raise ArchError(Problem("a binary file", "an architecture is a YAML or JSON text", path=name))
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        what = f"not UTF-8: byte 0x{data[error.start]:02x}"
        raise ArchError(Problem(what, "save it as UTF-8", path=f"{name}:{line}")) from None


def text_of(content: str, name: str, lead: str = "") -> Text:
    """Normalize a text's line ends; messages show `lead`, such as `--set key=`, before its first line."""
    refuse_huge(len(content), name, _size_limit(content[:START]))
    content = content.removeprefix(BOM).replace("\r\n", "\n").replace("\r", "\n")
    source = Source(name, (lead + content).split("\n"), len(lead))
    # one call in C for the usual text; the loop over characters runs only to find the place
    if not content.replace("\n", "").replace("\t", "").isprintable():
        _refuse_control(content, source)
    return Text(content, source)


def refuse_huge(size: int, name: str, most: int = MOST_BYTES) -> None:
    """Refuse a text of more bytes or characters than are read."""
    if size > most:
        hint = "an architecture is a few lines of text"
        raise ArchError(Problem(f"larger than {most >> 20} MiB", hint, path=name))


def _size_limit(start: str) -> int:
    """The largest accepted size, by a text's first characters: JSON may be larger than YAML."""
    return MOST_JSON if start.lstrip(f"{BOM} \t\r\n").startswith("{") else MOST_BYTES


def _refuse_control(content: str, source: Source) -> None:
    """Refuse control characters, some of which the parser would take for line breaks."""
    for i, line in enumerate(content.split("\n")):
        for column, c in enumerate(line):
            if c != "\t" and (
                c < " " or "\x7f" <= c <= "\x9f" or c in "\u2028\u2029\ufeff" or "\ud800" <= c <= "\udfff"
            ):
                place = Place(source, i, column + (0 if i else source.shift))
                raise ArchError(Problem(f"a control character, U+{ord(c):04X}", "remove it", place.mark()))
