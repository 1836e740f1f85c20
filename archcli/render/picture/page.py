"""The HTML page of a profile: the picture and its figures in one file, without scripts or network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from archcli.recording.classes import label_of
from archcli.render.picture.drawing import headline, svg
from archcli.render.picture.elements import escaped

STYLE = """
:root { color-scheme: light dark }
body { font: 14px system-ui, sans-serif; max-width: 1000px; margin: 24px auto; padding: 0 16px }
table { border-collapse: collapse; margin: 16px 0; font-variant-numeric: tabular-nums }
caption { text-align: left; font-weight: 600; padding: 4px 0 }
th, td { padding: 3px 10px; border-bottom: 1px solid #8884; text-align: right }
th:first-child, td:first-child { text-align: left }
svg { max-width: 100%; height: auto } .soft { opacity: .75 }
"""
MOST_OPERATORS = 40
"""Rows of the table by operator, the slowest first."""


def page(document: Mapping[str, Any]) -> str:
    """The page: the drawing, a table by class, a table by operator, and the notes."""
    totals = document["totals"]
    title = escaped(headline(document))
    by_time = sorted(totals["by_class"].items(), key=lambda item: -item[1]["time_share"])
    classes = [(label_of(name), figures) for name, figures in by_time]
    operators = [(row["path"], row) for row in document["rows"][:MOST_OPERATORS]]
    parts = [
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{title}</title>',
        f"<style>{STYLE}</style>\n</head>\n<body>",
        svg(document),
        *_table("By class", classes),
        *_table("By operator", operators),
        *(f'<p class="soft">{escaped(note)}</p>' for note in (document["convention"], *document["notes"])),
        "</body>\n</html>\n",
    ]
    return "\n".join(parts)


def _table(caption: str, entries: list[tuple[str, Mapping[str, Any]]]) -> Iterator[str]:
    heads = "".join(f"<th>{head}</th>" for head in ("", "FLOP share", "byte share", "time share", "ms"))
    yield f"<table>\n<caption>{caption}</caption>\n<tr>{heads}</tr>"
    for name, figures in entries:
        shares = "".join(f"<td>{figures[f'{kind}_share']:.2%}</td>" for kind in ("flop", "byte", "time"))
        yield f"<tr><td>{escaped(name)}</td>{shares}<td>{figures['seconds'] * 1e3:,.3f}</td></tr>"
    yield "</table>"
