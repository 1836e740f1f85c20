"""The HTML page of a profile: the picture and its figures in one file, without scripts or network."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from archcli.render.picture.elements import STYLE as DRAWING_STYLE
from archcli.render.picture.elements import escaped
from archcli.wings.running.pictures.profile.drawing import FigureTable, Picture, figure

WIDE, NARROW = 736, 340
"""Pixels of the drawing on a screen, and on a phone."""
STYLE = """
:root {
  color-scheme: light dark;
  --ink: #1c1c1c; --paper: #fff; --soft: #5c5c5c; --rule: #d9d9d9; --warn: #b3261e;
}
@media (prefers-color-scheme: dark) {
  :root { --ink: #ececec; --paper: #161616; --soft: #a6a6a6; --rule: #444; --warn: #ff8a80 }
}
body {
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", sans-serif;
  color: var(--ink); background: var(--paper);
  max-width: 768px; margin: 24px auto; padding: 0 16px; overflow-wrap: anywhere;
}
h1 { font-size: 22px; line-height: 1.3; margin: 0 0 4px }
h2 { font-size: 16px; margin: 32px 0 8px }
p { margin: 4px 0 12px }
.soft { color: var(--soft) }
.warnings { border: 2px solid var(--warn); color: var(--warn); font-weight: 600; padding: 8px 12px 0 }
.warnings { margin-bottom: 12px }
svg { display: block; width: 100%; height: auto; margin: 20px 0 }
.scroll { overflow-x: auto }
table { border-collapse: collapse; font-variant-numeric: tabular-nums }
th, td { padding: 4px 0 4px 24px; border-bottom: 1px solid var(--rule); white-space: nowrap }
th, td { text-align: right }
th:first-child, td:first-child { text-align: left; padding-left: 0 }
.phone { display: none; max-width: 480px }
@media (max-width: 640px) {
  .screen { display: none } .phone { display: block } th, td { padding-left: 12px; font-size: 13px }
}
"""


def page(picture: Picture, document: Mapping[str, Any]) -> str:
    """The page: warnings, the drawing, its tables, and the document's notes."""
    notes = [note for note in document["notes"] if note not in picture.warnings]
    return "\n".join(
        [
            *_head(picture.title),
            f"<h1>{escaped(picture.title)}</h1>",
            *_paragraphs([picture.lead] if picture.lead else [], ""),
            *_warnings(picture),
            *_paragraphs([picture.settings], "soft"),
            f'<div class="screen">{figure(picture, WIDE)}</div>',
            f'<div class="phone">{figure(picture, NARROW)}</div>',
            *(line for table in picture.tables for line in _table(table)),
            "<h2>Notes</h2>",
            *_paragraphs([document["convention"], *notes], "soft"),
            "</body>\n</html>\n",
        ]
    )


def _head(title: str) -> Iterator[str]:
    yield '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>{escaped(title)}</title>\n<style>{STYLE}{DRAWING_STYLE}</style>\n</head>\n<body>"


def _warnings(picture: Picture) -> Iterator[str]:
    """A frame with all warnings, where there are any."""
    if picture.warnings:
        yield '<div class="warnings" role="alert">'
        yield from _paragraphs(picture.warnings, "")
        yield "</div>"


def _paragraphs(texts: Iterable[str], class_: str) -> Iterator[str]:
    for text in texts:
        yield f'<p class="{class_}">{escaped(text)}</p>' if class_ else f"<p>{escaped(text)}</p>"


def _table(table: FigureTable) -> Iterator[str]:
    """A table that scrolls sideways; lines that would show 0% are left out."""
    shown = [line for line in table.lines if any(map(_shows, line))][: table.most]
    heads = "".join(f"<th>{head}</th>" for head in table.heads)
    yield f"<h2>{table.title}</h2>"
    yield f'<div class="scroll" role="region" aria-label="{table.title}" tabindex="0"><table>'
    yield f"<tr><th></th>{heads}</tr>"
    for line in shown:
        yield f"<tr>{''.join(f'<td>{escaped(cell)}</td>' for cell in line)}</tr>"
    yield "</table></div>"
    if len(shown) < len(table.lines):
        left_out = f"{len(table.lines) - len(shown)} of {len(table.lines)} {table.what}"
        yield from _paragraphs([f"Not shown: {left_out}, with a smaller share or none."], "soft")


def _shows(cell: str) -> bool:
    """Whether a cell is a share that is not printed as zero: 0.01%, not 0.00%."""
    return cell.endswith("%") and any(digit in cell for digit in "123456789")
