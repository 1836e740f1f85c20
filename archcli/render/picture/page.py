"""The picture and its figures as one HTML file that needs no network and no script."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from archcli.render.picture.bars import said
from archcli.render.picture.drawing import headline, svg
from archcli.render.picture.elements import escaped

STYLE = """
:root { color-scheme: light dark }
body { font: 14px system-ui, sans-serif; max-width: 1000px; margin: 24px auto; padding: 0 16px }
table { border-collapse: collapse; margin: 16px 0; font-variant-numeric: tabular-nums }
caption { text-align: left; font-weight: 600; padding: 4px 0 }
th, td { padding: 3px 10px; border-bottom: 1px solid #8884; text-align: right } th:first-child, td:first-child { text-align: left }
svg { max-width: 100%; height: auto } .soft { opacity: .75 }
"""
SHOWN = 40
"""Operators in the table, the slowest first."""


def page(document: Mapping[str, Any]) -> str:
    """One file: the drawing, a table by class, one by operator, the notes."""
    totals = document["totals"]
    title = escaped(headline(document))
    classes = [
        (said(name), each)
        for name, each in sorted(totals["by_class"].items(), key=lambda item: -item[1]["time_share"])
    ]
    operators = [(row["path"], row) for row in document["rows"][:SHOWN]]
    parts = [
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{title}</title>',
        f"<style>{STYLE}</style>\n</head>\n<body>",
        svg(document),
        *_table("By class", classes),
        *_table("By operator", operators),
        *(f'<p class="soft">{escaped(words)}</p>' for words in (document["convention"], *document["notes"])),
        "</body>\n</html>\n",
    ]
    return "\n".join(parts)


def _table(caption: str, entries: list[tuple[str, Mapping[str, Any]]]) -> Iterator[str]:
    heads = "".join(f"<th>{head}</th>" for head in ("", "FLOP share", "byte share", "time share", "ms"))
    yield f"<table>\n<caption>{caption}</caption>\n<tr>{heads}</tr>"
    for name, each in entries:
        shares = "".join(f"<td>{each[f'{kind}_share']:.2%}</td>" for kind in ("flop", "byte", "time"))
        yield f"<tr><td>{escaped(name)}</td>{shares}<td>{each['seconds'] * 1e3:,.3f}</td></tr>"
    yield "</table>"
