"""The links and the anchors of a built site, read from its HTML."""

from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """What a page links to and what can be linked to in it; `codes` are the code spans of its tables."""

    def __init__(self, path):
        super().__init__()
        self.links, self.anchors, self.codes = [], set(), []
        self.inside = []
        self.feed(path.read_text())

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.anchors |= {values[key] for key in ("id", "name") if values.get(key)}
        self.links += [values[key] for key in ("href", "src") if values.get(key)]
        if tag in {"td", "code"}:
            self.inside.append(tag)

    def handle_endtag(self, tag):
        if self.inside and self.inside[-1] == tag:
            self.inside.pop()

    def handle_data(self, data):
        if self.inside == ["td", "code"]:
            self.codes.append(data)


@cache
def page(path):
    """A page, read once."""
    return Page(path)


def target(link, at, site):
    """(file, anchor) that a link on the page `at` leads to; None outside of the site."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return None
    start = Path(site) if parts.path.startswith("/") else at.parent
    file = (start / unquote(parts.path).lstrip("/")).resolve() if parts.path else at
    return file / "index.html" if file.is_dir() else file, unquote(parts.fragment)


def broken(site, pages):
    """(page, link) of every link whose file or anchor is not there.

    What an address tells a script, as `#model=gpt2`, is no anchor.
    """
    for at in pages:
        for link in page(at).links:
            file, anchor = target(link, at, site) or (at, "")
            asks = "=" in anchor or file.parent.name == "compare"
            wanted = anchor if file.suffix == ".html" and not asks else ""
            if not file.is_file() or (wanted and wanted not in page(file).anchors):
                yield at.relative_to(site).as_posix(), link
