"""The help of a command, folded to the width of the terminal between words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from archcli.render.screen import folded

WIDEST, NARROWEST = 80, 30
"""The most and fewest columns of a page: longer lines are hard to read."""
TERMS = 30
"""Columns of a list's terms at most; a longer one stands above its meaning."""
STACKED = 60
"""On a narrower page every option stands above its meaning."""
INDENT, GAP = "  ", "  "


class HelpEntry(NamedTuple):
    """An argument, option or command of a help page, and its meaning."""

    term: str
    meaning: str


class HelpSection(NamedTuple):
    """A titled list of a help page; where `stacked`, every meaning stands below its term."""

    title: str
    entries: Sequence[HelpEntry]
    stacked: bool = False


def help_page(usage: str, text: str, sections: Sequence[HelpSection], columns: int) -> str:
    """The usage line, paragraphs of text, then the sections."""
    width = max(NARROWEST, min(columns, WIDEST))
    blocks = [folded(usage, width, " " * len("Usage: "))]
    blocks += [folded(part, width, INDENT, INDENT) for part in _paragraphs(text)]
    blocks += [[f"{section.title}:", *_listed(section, width)] for section in sections]
    return "\n\n".join("\n".join(lines) for lines in blocks) + "\n"


def _paragraphs(text: str) -> list[str]:
    """The text cut at its empty lines, each part as one line."""
    lines = groupby(text.splitlines(), key=bool)
    return [" ".join(line.strip() for line in part) for filled, part in lines if filled]


def _listed(section: HelpSection, width: int) -> Iterator[str]:
    """Two columns: terms and meanings; on a narrow page or beside a long term the meaning stands below."""
    fitting = [len(entry.term) for entry in section.entries if len(entry.term) <= TERMS]
    aside = len(INDENT) + max(fitting, default=0) + len(GAP)
    for term, meaning in section.entries:
        if section.stacked or aside + STACKED // 2 > width:
            yield from folded(term, width, 2 * INDENT, INDENT)
            yield from folded(meaning, width, 3 * INDENT, 3 * INDENT)
        elif len(term) > TERMS:
            yield from folded(term, width, 2 * INDENT, INDENT)
            yield from folded(meaning, width, " " * aside, " " * aside)
        else:
            yield from folded(meaning, width, " " * aside, f"{INDENT}{term}".ljust(aside))
