"""The page of a report: its template filled with a drawing, data, a style sheet and scripts.

Everything is in one file. A policy in it forbids all but its own styles and scripts, by their hashes.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from html import unescape
from typing import Any

from archcli.render.picture.elements import escaped

SCRIPTS = ("bigint", "text", "elements", "charts", "inputs", "models", "redraw", "sections", "page")
"""The scripts of the page, in their order."""
PLACE = re.compile(r"\{\{(\w+)\}\}")
BLOCK = re.compile(r"<(style|script)(?: [^>]*)?>(.*?)</\1>", re.DOTALL)


def page(
    title: str, subtitle: str, drawing: str, data: Mapping[str, Any], code: str, file: Callable[[str], str]
) -> str:
    """The page; `code` are the closed forms and the drawing's own script, as JavaScript.

    `file` reads a file that lies beside this one.
    """
    parts = {
        "title": escaped(title),
        "subtitle": escaped(subtitle),
        "style": file("page.css"),
        "drawing": drawing,
        # </script> within a name must not end the data
        "data": json.dumps(data, separators=(",", ":")).replace("<", "\\u003c"),
        "script": _script(code, file),
    }
    template = file("template.html")
    whole = filled(template, {**parts, "policy": "{{policy}}"})
    return whole.replace("{{policy}}", policy(whole), 1)


def filled(template: str, parts: Mapping[str, str]) -> str:
    """The template with a part at each place; a place without one is a KeyError."""
    return PLACE.sub(lambda place: parts[place[1]], template)


def policy(text: str) -> str:
    """A content security policy that allows the styles and scripts of a page, and nothing else."""
    hashes: dict[str, list[str]] = {"style": [], "script": []}
    for kind, content in BLOCK.findall(text):
        # within an svg a style sheet is text like any other: a browser reads its &quot; as a quote
        read = unescape(content) if kind == "style" else content
        digest = base64.b64encode(hashlib.sha256(read.encode()).digest()).decode()
        hashes[kind].append(f"'sha256-{digest}'")
    allowed = [f"{kind}-src {' '.join(dict.fromkeys(digests))}" for kind, digests in hashes.items()]
    return "; ".join(["default-src 'none'", *allowed, "base-uri 'none'", "form-action 'none'"])


def _script(code: str, file: Callable[[str], str]) -> str:
    """All scripts as one, which leaves no name behind."""
    texts = [file(f"{name}.js") for name in SCRIPTS]
    # the closed forms come behind the functions that they call
    return "\n".join(['(() => {\n"use strict";', texts[0], code, *texts[1:], "})();"])


def model_code(scripts: Sequence[str], redraw: str) -> str:
    """The closed forms of the models, in the order of the data, and the script that draws anew."""
    forms = ",\n".join(scripts)
    return f"const SCRIPTS = [{forms}];\nconst REDRAW = {redraw or 'null'};"
