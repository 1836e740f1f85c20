"""Text for a terminal, wrapped and coloured, and a progress bar; for a pipe unchanged."""

from __future__ import annotations

import io
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import chain
from textwrap import TextWrapper
from typing import TextIO
from unicodedata import category, east_asian_width

# columns: some terminals report 0 or 1
NARROWEST = 20
UNKNOWN = os.terminal_size((80, 24))
"""What a terminal is taken for that does not say how large it is."""
GLUE = "\xa0"
"""A no-break space. Its name in an escape would load a table of names, in which Ctrl-C is a SyntaxError."""
SPANS = re.compile(r"`[^`]+`|\[[^][]+\]")
"""Code in backquotes and what stands in brackets, `[default: 1]`, are not broken."""
CONTINUED = " \\"
"""The end of a line that a shell joins with the next."""
EMPHASIS = re.compile(r"(?<![\w*])(\*{1,2})(?=\S)([^*]+)(?<=\S)\1(?![\w*])")
"""Words between single or double asterisks, `*so*`; 2*d*n is a product."""
SEAMS = "/.,=:|-_"
"""After these a word that is wider than the terminal may break."""
INVISIBLE = {"Mn", "Me"}
"""Unicode categories of combining marks, which take no column of their own."""
STYLES = (
    (r"^\S.*?:\d+:\d+(?=: )", "bold"),
    (r"(?:^|(?<=: ))error(?=:)", "bold red"),
    (r"error\[\w+\]", "bold red"),
    (r"warning\[\w+\]", "bold yellow"),
    (r"info\[\w+\]", "bold cyan"),
    (r"^    +\^+$", "bold red"),
    (r"^  = \w+:", "bold blue"),
)
"""Patterns in a finding and the styles they are drawn in."""


def columns(stream: TextIO | None = None) -> int | None:
    """The width of the terminal that a stream is (standard output); None for a pipe, never folded."""
    stream = stream or sys.stdout
    if not stream.isatty():
        return None
    try:
        reported = os.get_terminal_size(stream.fileno())
    except (OSError, ValueError):
        reported = UNKNOWN
    # COLUMNS wins, then standard output's size, then that of this stream
    return max(NARROWEST, shutil.get_terminal_size(reported).columns)


def has_colours(stream: TextIO | None = None) -> bool:
    """Whether to colour text: the stream (standard output) is a terminal and NO_COLOR is not set."""
    return (stream or sys.stdout).isatty() and not os.environ.get("NO_COLOR")


def painted(text: str, stream: TextIO | None = None) -> str:
    """Text in colour where the stream (standard output) is a terminal and NO_COLOR is not set."""
    if not has_colours(stream):
        return text
    from rich.console import Console
    from rich.text import Text

    out = io.StringIO()
    # soft_wrap: the text is folded already; highlight would colour numbers and paths
    console = Console(file=out, force_terminal=True, highlight=False, emoji=False, soft_wrap=True)
    for line in text.split("\n"):
        drawn = Text(line)
        for pattern, style in STYLES:
            drawn.highlight_regex(pattern, style)
        console.print(drawn)
    return out.getvalue().removesuffix("\n")


def folded(
    text: str, width: int | None, indent: str = "", first: str = "", *, pasted: bool = False
) -> list[str]:
    """Lines of at most `width` columns, the further ones indented; the text as it is without a width.

    Words and SPANS stay whole; what is wider than a line breaks after a sign such as / or =. Where it is
    `pasted`, lines of a long command in backquotes end with a backslash, by which a shell joins them.
    """
    if width is None:
        return [first + text]
    first, indent = first[: width // 2], indent[: width // 2]
    pasted = pasted and any(span[0] == "`" and len(span) > width for span in SPANS.findall(text))
    width -= len(CONTINUED) if pasted else 0
    wrapper = TextWrapper(width, initial_indent=first, subsequent_indent=indent)
    wrapper.break_long_words = wrapper.break_on_hyphens = False
    lines = wrapper.wrap(_glued(text, width - len(indent)))
    pieces = [_broken(line.replace(GLUE, " "), width, indent) for line in lines]
    return list(_continued(pieces) if pasted else chain.from_iterable(pieces))


def _continued(pieces: Iterable[Sequence[str]]) -> Iterator[str]:
    """The pieces of lines, with a backslash where one ends within a command, or within a word of it."""
    quotes = 0
    for line in pieces:
        for i, piece in enumerate(line, 1):
            quotes += piece.count("`")
            yield piece + (CONTINUED if i == len(line) else CONTINUED.strip()) * (quotes % 2)


def _glued(text: str, most: int) -> str:
    """The text with every span of SPANS made one word, where it fits into a line."""
    return SPANS.sub(lambda span: span[0] if len(span[0]) > most else span[0].replace(" ", GLUE), text)


def _broken(line: str, width: int, indent: str) -> list[str]:
    """The line in pieces of at most `width` columns, cut after a seam where there is one."""
    lines = []
    while len(line) > width:
        start = len(line) - len(line.lstrip()) + 1
        seam = max((line.rfind(sign, start, width) for sign in SEAMS), default=-1) + 1
        cut = seam or width
        lines.append(line[:cut])
        line = indent + line[cut:]
    return [*lines, line]


def fitted(markdown: str) -> str:
    """Markdown drawn at the terminal's width; into a pipe as plain text."""
    width = columns()
    if width is None:
        return without_markup(markdown)
    from rich.console import Console
    from rich.markdown import Markdown

    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=True, highlight=False, emoji=False)
    console.print(Markdown(markdown, code_theme="ansi_dark", hyperlinks=False))
    drawn = "\n".join(line.rstrip() for line in out.getvalue().strip("\n").split("\n"))
    return re.sub(r"\n{3,}", "\n\n", drawn) + "\n"


def without_markup(markdown: str) -> str:
    """Markdown as plain text: headings, emphasis and fences without their signs, code set in."""
    lines, is_code = list[str](), False
    for line in markdown.split("\n"):
        if line.startswith("```"):
            is_code = not is_code
        elif is_code:
            lines.append(f"    {line}".rstrip())
        else:
            lines.append(EMPHASIS.sub(r"\2", re.sub(r"^#+ ", "", line)))
    return "\n".join(lines)


def cell_width(text: str) -> int:
    """Columns on a terminal: East Asian wide characters take two, combining marks none."""
    if text.isascii():
        return len(text)
    return sum(0 if category(c) in INVISIBLE else 2 if east_asian_width(c) in "WF" else 1 for c in text)


Tick = Callable[[str, int, int], None]


@contextmanager
def progress(title: str) -> Iterator[Tick]:
    """Yields a function that takes (current step, done, total)."""
    # a watched program's Python may not have rich
    if not sys.stderr.isatty() or find_spec("rich") is None:
        yield _no_bar
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        # a model's name may hold brackets, which rich takes for markup
        task = bar.add_task(escape(title), total=None)
        yield lambda what, done, total: bar.update(
            task, description=escape(f"{title}: {what}"), completed=done, total=total
        )


def _no_bar(what: str, done: int, total: int) -> None:
    pass
