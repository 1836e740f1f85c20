"""The parts of a report's page: files that lie beside the code."""

from __future__ import annotations

from functools import cache
from pathlib import Path

PAGE = Path(__file__).parent / "report"


@cache
def page_file(name: str) -> str:
    """The text of a part of the page: its template, a style sheet, a script."""
    return (PAGE / name).read_text(encoding="utf-8")
