"""Write drawings side by side as PNGs, to be looked at. Usage: contact_sheets.py FOLDER [NAME …]

A NAME is a preset, PRESET+PRESET, or a file; without, all presets and the pairs that are tested.
"""

import base64
import sys
from html import escape
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from archcli.load.presets import presets
from drawn.drawings import drawing, pairs
from drawn.measuring import SCHEMES, chromium, in_scheme, resized

ACROSS, DOWN = 3, 2
WIDE, HIGH = 660, 720
"""Pixels of a drawing, at most."""


STYLE = f"""body{{margin:0;background:#888;display:grid;gap:6px}}
body{{grid-template-columns:repeat({ACROSS},{WIDE}px)}}
figure{{margin:0}} figcaption{{font:14px sans-serif}} img{{max-width:{WIDE}px;max-height:{HIGH}px}}"""
DECODED = """const done = arguments[0];
Promise.all([...document.images].map((image) => image.decode())).then(done)"""


def page(named):
    """The drawings of one sheet as a page."""
    cells = "".join(
        f"<figure><figcaption>{escape(name)}</figcaption>"
        f"<img src='data:image/svg+xml;base64,{encoded(svg)}'></figure>"
        for name, svg in named
    )
    return f"<body><style>{STYLE}</style>{cells}</body>"


def encoded(svg):
    return base64.b64encode(svg.encode()).decode()


def drawn(names):
    """Names and drawings; one that cannot be drawn is told and left out."""
    for name in names:
        try:
            yield name, drawing(*name.split("+"))
        except Exception as error:  # noqa: BLE001 - whatever it is, the others are drawn
            sys.stderr.write(f"{name}: {type(error).__name__}: {error}\n")


def photograph(browser, html, file):
    """Write a page as a PNG of its whole height."""
    browser.execute_script("document.documentElement.innerHTML = arguments[0]", html)
    browser.execute_async_script(DECODED)
    height = browser.execute_script("return document.body.scrollHeight")
    clip = {"x": 0, "y": 0, "width": ACROSS * (WIDE + 6), "height": height, "scale": 1}
    shot = browser.execute_cdp_cmd("Page.captureScreenshot", {"clip": clip, "captureBeyondViewport": True})
    file.write_bytes(base64.b64decode(shot["data"]))


def main(folder, names):
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    named = [*drawn(names or [*presets(), *map("+".join, pairs())])]
    with chromium() as browser:
        resized(browser, ACROSS * (WIDE + 6), DOWN * (HIGH + 24))
        for i in range(0, len(named), ACROSS * DOWN):
            # every fourth sheet as a reader in the dark sees it
            in_scheme(browser, SCHEMES[(i // (ACROSS * DOWN)) % 4 == 3])
            photograph(browser, page(named[i : i + ACROSS * DOWN]), folder / f"{i // (ACROSS * DOWN):02}.png")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
