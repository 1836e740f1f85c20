"""README as a package index shows it: links are absolute, or plain text where no address is known.

The address is `Source` of `[project.urls]` in pyproject.toml, which docs/releasing.md says to fill.
"""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?!\w+:)([^)\s]+)\)")
FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)


class ReadmeHook(MetadataHookInterface):
    """Fills `readme`."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the text of README.md with its links changed."""
        readme = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        source = metadata.get("urls", {}).get("Source", "").rstrip("/")
        text = with_links(readme, source and f"{source}/{{}}/v{metadata['version']}")
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


def with_links(text: str, address: str) -> str:
    """The text with relative links below `address`, in which {} is blob or raw; plain text without one."""
    ends = [0, *(edge for block in FENCED.finditer(text) for edge in block.span()), len(text)]
    parts = [text[start:end] for start, end in pairwise(ends)]
    parts[::2] = [
        LINK.sub(lambda link: _link(link, address), part) for part in parts[::2]
    ]  # the others are code
    return "".join(parts)


def _link(link: re.Match[str], address: str) -> str:
    picture, words, target = link.groups()
    if not address:
        return words
    path = f"README.md{target}" if target.startswith("#") else target
    return f"{picture}[{words}]({address.format('raw' if picture else 'blob')}/{path})"
