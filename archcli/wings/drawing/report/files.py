"""Write the page of a report to a file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from archcli.errors import ArchError, Problem
from archcli.render.write import check_writable, descriptor, write

SUFFIXES = (".html", ".htm")


def check_page(output: Path) -> None:
    """Raise ArchError for a file that is not a page, or cannot be written."""
    if descriptor(output) is None and output.suffix.lower() not in SUFFIXES:
        what = f"{output.name} does not end in .html"
        raise ArchError(Problem(what, "a report is a page", path=str(output)))
    check_writable(output)


def save_page(html: Callable[[], str], output: Path) -> Path:
    """Write the page, composed only once the file is known to be writable."""
    check_page(output)
    write(html(), output)
    return output
