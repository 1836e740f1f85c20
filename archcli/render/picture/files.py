"""Writing a picture in the format that its file's suffix names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from archcli.errors import ArchError, Problem, install
from archcli.render.picture.elements import escaped
from archcli.render.write import check_writable, descriptor, write, write_data

SVG = ".svg"
SUFFIXES = (SVG, ".html", ".png")
FONTS = (
    "Inter",
    "DejaVu Sans",
    "Liberation Sans",
    "Noto Sans",
    "Arial",
    "Helvetica",
    "Segoe UI",
    "Roboto",
    "Ubuntu",
)
"""Fonts of which most machines have one: what a PNG takes for sans-serif."""
LETTER = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="20" height="20">'
    '<text x="2" y="16" font-family="{}">M</text></svg>'
)
NARROW = 340.0
"""Pixels of a drawing on a phone."""
PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark }}
body {{ margin: 0 }}
svg {{ display: block; max-width: 100%; height: auto }}
.phone {{ display: none }}
@media (max-width: 640px) {{ .screen {{ display: none }} .phone {{ display: block }} }}
</style>
</head>
<body>
<div class="screen">{screen}</div>
<div class="phone">{phone}</div>
</body>
</html>
"""


def save_drawing(title: str, drawing: Callable[[float], str], width: float, output: Path) -> None:
    """Write an SVG of a width; as .html in a page that has it for screens, and a narrow one for phones."""

    def html() -> str:
        return PAGE.format(title=escaped(title), screen=drawing(width), phone=drawing(NARROW))

    draw(output, lambda: drawing(width), html)


def draw(output: Path, svg_text: Callable[[], str], html_text: Callable[[], str]) -> None:
    """Write a picture as its file's suffix says: an SVG, a page, or a PNG of the SVG."""
    suffix = check_picture(output)
    text = html_text() if suffix == ".html" else svg_text()
    if suffix == ".png":
        render = _renderer()
        write_data(bytes(render(svg_string=text, zoom=2.0, sans_serif_family=_font(render))), output)
    else:
        write(text, output)


def check_picture(output: Path) -> str:
    """The suffix of a picture's file; `-` and other streams are sent an SVG.

    Raises ArchError for an unknown one, for a file that may not be written, and a PNG without resvg-py.
    """
    suffix = output.suffix.lower() if descriptor(output) is None else SVG
    if suffix not in SUFFIXES:
        raise ArchError(
            Problem(
                f"{output.name} ends in none of {', '.join(SUFFIXES)}",
                "the suffix says what is drawn",
                path=str(output),
            )
        )
    if suffix == ".png":
        _font(_renderer())
    check_writable(output)
    return suffix


def _renderer() -> Any:
    try:
        from resvg_py import svg_to_bytes
    except ModuleNotFoundError:
        raise ArchError(
            "a .png needs resvg-py, which is not installed",
            f"write an .svg or .html, or {install('resvg-py')}",
        ) from None
    return svg_to_bytes


def _font(render: Any) -> str:
    """A font that is installed. Raises ArchError where none of FONTS is: text would be left out."""
    nothing = bytes(render(svg_string=LETTER.format("")))
    # resvg leaves a text out, and says nothing, where it finds none of its fonts
    visible = (font for font in FONTS if bytes(render(svg_string=LETTER.format(font))) != nothing)
    font = next(visible, None)
    if font is None:
        what = "a .png would have no text: no font that archcli knows is installed"
        raise ArchError(what, "write an .svg or .html, or install the fonts DejaVu (fonts-dejavu-core)")
    return font
