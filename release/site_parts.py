"""Pages of docs/ as the site shows them: long ones in parts, each link led to the part it means.

docs/rules.md is one page in a repository, where its anchors work. The site has rules/att001/ and so on, and
rules/ as their index. Its old anchors stay: rules/#att001-... is the row that leads to the part.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from posixpath import dirname, join, normpath, relpath
from typing import NamedTuple

PARTED = ("rules.md", "keys.md")
"""Pages whose second-level headings become pages."""

LONGEST = 150
"""Lines of a part; the kinds of a longer one are pages, too."""

DEEPEST = 3
HEADING = re.compile(r"^(#{2,3}) (.+)$")
LINK = re.compile(r"\]\(([^)\s]+)\)")
CODE_SPAN = re.compile(r"`[^`]+`")
FENCE = "`" * 3
Moved = Mapping[str, str]
"""Where a page's anchor is now, as `keys.md#attention-gqa` to `keys/attention/gqa.md`."""


class Part(NamedTuple):
    """A heading's part of a page, such as `keys/attention.md`, with the parts that it is split into."""

    path: str
    title: str
    text: str
    anchors: tuple[str, ...]
    parts: tuple[Part, ...]


def slug(title: str) -> str:
    """The anchor of a heading."""
    return re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-")


def headed(text: str, level: int) -> tuple[str, list[tuple[str, str]]]:
    """The text before the first heading of a level, and (title, text) of each; headings in code are none."""
    before, found, fenced = "", list[tuple[str, str]](), False
    for line in text.splitlines(keepends=True):
        fenced ^= line.startswith(FENCE)
        if not fenced and line.startswith("#" * level + " "):
            found.append((line[level:].strip(), ""))
        elif found:
            found[-1] = (found[-1][0], found[-1][1] + line)
        else:
            before += line
    return before, found


def parted(text: str, path: str, level: int = 2) -> tuple[str, tuple[Part, ...]]:
    """What a page has before its first heading, and its parts."""
    before, sections = headed(text, level)
    return before, tuple(_part(title, section, path, level) for title, section in sections)


def _part(title: str, text: str, path: str, level: int) -> Part:
    folder = path.removesuffix(".md")
    family, _, kind = title.partition(": ")
    within = kind if kind and folder.endswith(f"/{family}") else family
    # index.md would be the page of the folder
    here = f"{folder}/{'the-index' if within == 'index' else slug(within)}.md"
    _, inner = headed(text, level + 1)
    if level < DEEPEST and inner and text.count("\n") > LONGEST:
        before, parts = parted(text, here, level + 1)
        return Part(here, title, before, (slug(title),), parts)
    return Part(here, title, text, (slug(title), *(slug(deeper) for deeper, _ in inner)), ())


def flat(parts: tuple[Part, ...]) -> Iterator[Part]:
    """All parts, each before those within it."""
    for part in parts:
        yield part
        yield from flat(part.parts)


def moved_anchors(page: str, parts: tuple[Part, ...]) -> Iterator[tuple[str, str]]:
    """(old place, new place) of each anchor of a page."""
    for part in flat(parts):
        own, *deeper = part.anchors
        yield f"{page}#{own}", part.path
        yield from ((f"{page}#{anchor}", f"{part.path}#{anchor}") for anchor in deeper)


def relinked(text: str, was: str, now: str, moved: Moved) -> str:
    """A page's text with links as they are from its new place, and to where anchors are now."""

    def new(link: re.Match[str]) -> str:
        target = link[1]
        if re.match(r"\w+:", target):
            return link[0]
        file, _, anchor = target.partition("#")
        place = normpath(join(dirname(was), file)) if file else was
        whole = f"{place}#{anchor}" if anchor else place
        whole = moved.get(whole, whole)
        file, _, anchor = whole.partition("#")
        # an anchor of the page itself is left as it is
        local = "" if file == now and anchor else relpath(file, dirname(now) or ".")
        return f"]({local}#{anchor})" if anchor else f"]({local})"

    return LINK.sub(new, text)


def bars(text: str) -> str:
    """A text whose code spans in rows of tables hold `|` as it is: the site shows a backslash before it."""
    lines, fenced = [], False
    for line in text.split("\n"):
        fenced ^= line.startswith(FENCE)
        if line.startswith("|") and not fenced:
            line = CODE_SPAN.sub(lambda span: span[0].replace("\\|", "|"), line)  # noqa: PLW2901
        lines.append(line)
    return "\n".join(lines)


def first_sentence(text: str) -> str:
    """The first sentence of a part in one line, without its links; empty where a table comes first."""
    paragraph = text.strip().split("\n\n")[0]
    plain = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", " ".join(paragraph.split()))
    sentence = re.split(r"(?<=\.)\s(?=[A-Z`])", plain)[0]
    return "" if sentence.startswith(("#", "|", FENCE, "*")) else sentence.replace("|", "\\|")


def index(text: str, parts: tuple[Part, ...]) -> str:
    """A page that leads to its parts: where it links to them, by these links, else by a table."""
    linked = {link.lstrip("#") for link in LINK.findall(text) if link.startswith("#")}
    if all(part.anchors[0] in linked for part in parts):
        return re.sub(r"\]\(#([^)]+)\)", r"](#\1){ #\1 }", text)
    rows = (_row(part) for part in parts)
    return "\n".join([text.rstrip(), "", "| of | kinds |", "|---|---|", *rows, ""])


def _row(part: Part) -> str:
    """A row of an index: the part, and the kinds in it or else what it is."""
    kinds = [(deeper.anchors[0], deeper.title) for deeper in part.parts]
    kinds += [(anchor, anchor.removeprefix(f"{part.anchors[0]}-")) for anchor in part.anchors[1:]]
    links = ", ".join(f"{_anchored(name.split(': ')[-1], anchor)}" for anchor, name in kinds)
    return f"| {_anchored(part.title, part.anchors[0])} | {links or first_sentence(part.text)} |"


def _anchored(title: str, anchor: str) -> str:
    return f"[{title}](#{anchor}){{ #{anchor} }}"


def neighbours(part: Part, page: str, among: list[Part], titles: Mapping[str, str]) -> str:
    """The line above a part: the page that it is of, and the parts before and behind it."""
    at, above = among.index(part), dirname(part.path) + ".md"
    links = [f"[{titles.get(above, page)}]({relpath(above, dirname(part.path))})"]
    if at:
        links.append(f"← [{among[at - 1].title}]({relpath(among[at - 1].path, dirname(part.path))})")
    if at + 1 < len(among):
        links.append(f"[{among[at + 1].title}]({relpath(among[at + 1].path, dirname(part.path))}) →")
    return " · ".join(links)


def write_parts(docs: Path) -> None:
    """Split the long pages of a copy of docs/, lead all links to the parts, and take backslashes away."""
    pages = {path.relative_to(docs).as_posix(): path.read_text() for path in docs.rglob("*.md")}
    moved: dict[str, str] = {}
    made: dict[str, tuple[str, str]] = {}
    for page in PARTED:
        before, parts = parted(pages[page], page)
        moved |= dict(moved_anchors(page, parts))
        among = list(flat(parts))
        titles = {page: before.split("\n", 1)[0].lstrip("# ")} | {part.path: part.title for part in among}
        pages[page] = index(before, parts)
        for part in among:
            text = index(part.text, part.parts) if part.parts else part.text
            head = f"# {part.title}\n\n{neighbours(part, page, among, titles)}\n"
            made[part.path] = (head, f"\n{text}")
    for path, (head, text) in made.items():
        of = next(page for page in PARTED if path.startswith(page.removesuffix(".md") + "/"))
        (docs / path).parent.mkdir(parents=True, exist_ok=True)
        (docs / path).write_text(head + bars(relinked(text, of, path, moved)))
    for path, text in pages.items():
        (docs / path).write_text(bars(relinked(text, path, path, moved)))
