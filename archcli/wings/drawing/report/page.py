"""The HTML page of a report: a template with the drawing, data, a style sheet and scripts.

A single file. Its content security policy allows only its own styles and scripts, by their hashes.
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

SCRIPTS = ("bigint", "text", "elements", "charts", "runs", "inputs", "models", "redraw", "sections", "page")
"""The scripts of the page, in their order."""
PLACE = re.compile(r"\{\{(\w+)\}\}")
BLOCK = re.compile(r"<(style|script)(?: [^>]*)?>(.*?)</\1>", re.DOTALL)


def page(
    title: str, subtitle: str, drawing: str, data: Mapping[str, Any], code: str, file: Callable[[str], str]
) -> str:
    """The page.

    drawing, data: SVG, and the JSON of the figures.
    code: JavaScript of the closed forms, and of the drawing.
    file: reads a file of this folder, `page.css`.
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
        # the style within the svg is XML text, in which a browser decodes &quot; before it hashes
        read = unescape(content) if kind == "style" else content
        digest = base64.b64encode(hashlib.sha256(read.encode()).digest()).decode()
        hashes[kind].append(f"'sha256-{digest}'")
    allowed = [f"{kind}-src {' '.join(dict.fromkeys(digests))}" for kind, digests in hashes.items()]
    return "; ".join(["default-src 'none'", *allowed, "base-uri 'none'", "form-action 'none'"])


def _script(code: str, file: Callable[[str], str]) -> str:
    """All scripts as one function, without global names."""
    texts = [file(f"{name}.js") for name in SCRIPTS]
    # closed forms after bigint.js, whose functions they call
    return "\n".join(['(() => {\n"use strict";', texts[0], code, *texts[1:], "})();"])


def model_code(scripts: Sequence[str], redraw: str) -> str:
    """JavaScript: the closed forms of the models, in the order of the data, and the redraw function."""
    forms = ",\n".join(scripts)
    return f"const SCRIPTS = [{forms}];\nconst REDRAW = {redraw or 'null'};"
