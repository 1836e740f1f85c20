"""Makes a notebook of the tutorial: its text, its commands to run, and the output that the pages show.

    python release/notebook.py

writes docs/tutorial/tutorial.ipynb from the pages beside it, so that both say the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TUTORIAL = Path(__file__).parents[1] / "docs" / "tutorial"
NOTEBOOK = TUTORIAL / "tutorial.ipynb"
PAGES = ("index", "count", "fit", "design", "measure")
BLOCK = re.compile(r"^```(console|yaml|python)\n(.*?)^```\n", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\[([^\]]+)\]\([^)]*\)")
LEFT_OUT = re.compile(r"^(Next: .*|\[The notebook\].*)\n?", re.MULTILINE)
"""Paragraphs that only a page has."""

Cell = dict[str, Any]


def notebook() -> str:
    """The notebook, format 4.5, as JSON."""
    cells = [cell for page in PAGES for cell in cells_of((TUTORIAL / f"{page}.md").read_text())]
    named = [{"id": f"cell-{at}", **cell} for at, cell in enumerate(cells)]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    document = {"nbformat": 4, "nbformat_minor": 5, "metadata": metadata, "cells": named}
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def cells_of(page: str) -> Iterator[Cell]:
    """The cells of a page: its text between blocks, and each block to run."""
    at = 0
    for block in BLOCK.finditer(page):
        yield from _text(page[at : block.start()])
        language, content = block.groups()
        yield from _steps(content) if language == "console" else [_code(_source(language, content))]
        at = block.end()
    yield from _text(page[at:])


def _text(text: str) -> Iterator[Cell]:
    """A cell of text, if there is any; links lead nowhere outside of the site, and are left out."""
    plain = LINK.sub(r"\1", LEFT_OUT.sub("", text)).strip()
    if plain:
        yield {"cell_type": "markdown", "metadata": {}, "source": _lines(plain)}


def _steps(content: str) -> Iterator[Cell]:
    """A cell for each command of a console block, with the output that is shown."""
    for step in re.split(r"^\$ ", content, flags=re.MULTILINE)[1:]:
        command, _, output = step.partition("\n")
        yield _code(f"!{command}", output)


def _source(language: str, content: str) -> str:
    """What runs of a block: a YAML is written to the file that its first line names."""
    if language == "python":
        return content.strip()
    named = content.partition("\n")[0].removeprefix("# ")
    return f"%%writefile {named}\n{content.strip()}"


def _code(source: str, output: str = "") -> Cell:
    shown = {"output_type": "stream", "name": "stdout", "text": _lines(output.rstrip("\n") + "\n")}
    return {
        "cell_type": "code",
        "metadata": {},
        "execution_count": None,
        "source": _lines(source),
        "outputs": [shown] if output else [],
    }


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


if __name__ == "__main__":
    NOTEBOOK.write_text(notebook())
