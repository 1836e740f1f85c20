"""Text for a terminal, wrapped and coloured; for a pipe unchanged."""

from __future__ import annotations

import io
import os
import shutil
import sys
import textwrap

NARROWEST = 20
STYLES = (
    (r"^\S.*?:\d+:\d+(?=: )", "bold"),
    (r"error\[\w+\]", "bold red"),
    (r"warning\[\w+\]", "bold yellow"),
    (r"info\[\w+\]", "bold cyan"),
    (r"^    +\^+$", "bold red"),
    (r"^  = \w+:", "bold blue"),
)
"""Patterns in a finding and the styles they are drawn in."""


def columns() -> int | None:
    """The width of the terminal; None for a pipe, where nothing is folded."""
    return max(NARROWEST, shutil.get_terminal_size().columns) if sys.stdout.isatty() else None


def painted(text: str) -> str:
    """Text in colour where standard output is a terminal and NO_COLOR is not set."""
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR"):
        return text
    from rich.console import Console
    from rich.text import Text

    out = io.StringIO()
    console = Console(file=out, force_terminal=True, highlight=False, emoji=False, soft_wrap=True)
    for line in text.split("\n"):
        drawn = Text(line)
        for pattern, style in STYLES:
            drawn.highlight_regex(pattern, style)
        console.print(drawn)
    return out.getvalue().removesuffix("\n")


def fitted(markdown: str) -> str:
    """Paragraphs folded to the terminal's width; fenced blocks stay."""
    width = columns()
    if width is None:
        return markdown
    lines, fenced = [], False
    for line in markdown.split("\n"):
        fenced ^= line.startswith("```")
        keep = fenced or len(line) <= width
        lines += [line] if keep else textwrap.wrap(line, width, break_on_hyphens=False)
    return "\n".join(lines)
