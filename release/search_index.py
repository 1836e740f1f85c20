"""Makes the site's search index small, as every page fetches it.

An entry keeps the beginning of its text, which results show, and of the rest each word once, which finds it.
Of the pages of models the title alone is searched.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

SHOWN = 160
"""Characters of a text that stay as they are."""

WORD = re.compile(r"[\w.-]{2,30}")
NUMBER = re.compile(r"[\d.,x-]+\w?")
MODEL = re.compile(r"gallery/[^/#]+/(#.*)?")
Entry = dict[str, Any]


def short(text: str) -> str:
    """A text without tags: its beginning, then each further word once, numbers left out."""
    plain = re.sub(r"<[^>]+>", "", text)
    beginning = plain[:SHOWN]
    seen = {word.lower() for word in WORD.findall(beginning)}
    rest = []
    for word in WORD.findall(plain[SHOWN:]):
        if word.lower() not in seen and not NUMBER.fullmatch(word):
            seen.add(word.lower())
            rest.append(word)
    return f"{beginning} … {' '.join(rest)}" if rest else beginning


def shortened(entries: list[Entry]) -> list[Entry]:
    """The entries of an index, short; sections of a model's page are left out."""
    of_models = {entry["location"]: MODEL.fullmatch(entry["location"]) for entry in entries}
    return [
        entry | {"text": "" if match else short(entry["text"])}
        for entry in entries
        if not (match := of_models[entry["location"]]) or not match[1]
    ]


def shorten_index(file: Path) -> None:
    """Write the search index of a site short."""
    index = json.loads(file.read_text())
    index["items"] = shortened(index["items"])
    file.write_text(json.dumps(index, ensure_ascii=False, separators=(",", ":")))
