"""The parts of pages: files that lie beside the code."""

from __future__ import annotations

from functools import cache
from pathlib import Path

REPORT = "report"
"""The folder with the parts of a report's page."""


@cache
def page_file(name: str, folder: str = REPORT) -> str:
    """The text of a part of a page: its template, a style sheet, a script."""
    return (Path(__file__).parent / folder / name).read_text(encoding="utf-8")
