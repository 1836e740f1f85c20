"""Modelfile of Ollama: the model named by its FROM. https://docs.ollama.com/modelfile."""

from __future__ import annotations

import re
from typing import NamedTuple

FROM = re.compile(r"FROM[ \t]+(\S.*)", re.IGNORECASE)
ADAPTER = re.compile(r"ADAPTER[ \t]+\S", re.IGNORECASE)
# a Modelfile may hold a licence and a template of hundreds of lines each
MOST_LINES = 10_000


class Modelfile(NamedTuple):
    """The model of a Modelfile, and notes on its uncounted parts."""

    base: str
    notes: tuple[str, ...]


def read_modelfile(text: str) -> Modelfile | None:
    """The Modelfile in a text; None where its first line after comments is not a FROM."""
    lines = [line.strip() for line in text.split("\n", MOST_LINES)[:MOST_LINES]]
    first = next((line for line in lines if line and not line.startswith("#")), "")
    match = FROM.fullmatch(first)
    if match is None:
        return None
    adapted = any(ADAPTER.match(line) for line in lines)
    notes = ("its ADAPTER is not counted",) if adapted else ()
    return Modelfile(match[1].strip().strip('"'), notes)
