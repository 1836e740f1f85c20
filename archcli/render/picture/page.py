"""The HTML page of a profile: the picture and its figures in one file, without scripts or network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from archcli.recording.classes import label_of
from archcli.render.picture.bars import by_time
from archcli.render.picture.drawing import figure, headline, lead, settings, warnings
from archcli.render.picture.elements import STYLE as DRAWING_STYLE
from archcli.render.picture.elements import escaped

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
HEADS = ("FLOPs", "bytes", "time", "ms")
MOST_OPERATORS = 40
"""Rows of the table by operator, the slowest first."""
Entry = tuple[str, Mapping[str, Any]]


def page(document: Mapping[str, Any]) -> str:
    """The page: warnings, the drawing, a table by class, a table by operator, and the notes."""
    by_class = document["totals"]["by_class"]
    classes = [(label_of(name), by_class[name]) for name in by_time(by_class)]
    operators = [(row["path"], row) for row in document["rows"]]
    notes = [note for note in document["notes"] if note not in warnings(document)]
    return "\n".join(
        [
            *_head(headline(document)),
            f"<h1>{escaped(headline(document))}</h1>",
            *_paragraphs([lead(document)] if lead(document) else [], ""),
            *_warnings(document),
            *_paragraphs([settings(document)], "soft"),
            f'<div class="screen">{figure(document, WIDE)}</div>',
            f'<div class="phone">{figure(document, NARROW)}</div>',
            *_table("By class", "classes", classes, len(classes)),
            *_table("By operator", "operators", operators, MOST_OPERATORS),
            "<h2>Notes</h2>",
            *_paragraphs([document["convention"], *notes], "soft"),
            "</body>\n</html>\n",
        ]
    )


def _head(title: str) -> Iterator[str]:
    yield '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>{escaped(title)}</title>\n<style>{STYLE}{DRAWING_STYLE}</style>\n</head>\n<body>"


def _warnings(document: Mapping[str, Any]) -> Iterator[str]:
    """A frame with all warnings, where there are any."""
    if warnings(document):
        yield '<div class="warnings" role="alert">'
        yield from _paragraphs(warnings(document), "")
        yield "</div>"


def _paragraphs(texts: list[str], class_: str) -> Iterator[str]:
    for text in texts:
        yield f'<p class="{class_}">{escaped(text)}</p>' if class_ else f"<p>{escaped(text)}</p>"


def _table(title: str, what: str, entries: list[Entry], most: int) -> Iterator[str]:
    """A table that scrolls within itself; lines without a share are left out."""
    lines = [(name, figures) for name, figures in entries if any(map(_shows, _shares(figures)))][:most]
    heads = "".join(f"<th>{head}</th>" for head in HEADS)
    yield f'<h2>{title}</h2>\n<div class="scroll" role="region" aria-label="{title}" tabindex="0"><table>'
    yield f"<tr><th></th>{heads}</tr>"
    for name, figures in lines:
        cells = [escaped(name), *_shares(figures), f"{figures['seconds'] * 1e3:,.3f}"]
        yield f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
    yield "</table></div>"
    if len(lines) < len(entries):
        left_out = f"{len(entries) - len(lines)} of {len(entries)} {what}"
        yield from _paragraphs([f"Not shown: {left_out}, with a smaller share or none."], "soft")


def _shares(figures: Mapping[str, Any]) -> list[str]:
    return [f"{figures[f'{kind}_share']:.2%}" for kind in ("flop", "byte", "time")]


def _shows(share: str) -> bool:
    """Whether a share as shown has a digit other than zero."""
    return any(digit in share for digit in "123456789")
