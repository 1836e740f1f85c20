"""The pages a user reads, README and docs/: their code blocks, and their parts that are made from the code.

A generated part stands between `<!-- made: NAME ARGUMENT -->` and `<!-- end -->`.
"""

import re
from pathlib import Path

from generated import GENERATORS

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
DOCS = ROOT / "docs"
CHINESE = ROOT / "README.zh.md"
READMES = (README, CHINESE)
PAGES = [*READMES, *sorted(DOCS.rglob("*.md"))]
MADE = re.compile(r"<!-- made: (\S+)(?: (\S+))? -->\n(.*?)<!-- end -->", re.DOTALL)


def name(page):
    """A page by its path from the top of the repository."""
    return page.relative_to(ROOT).as_posix()


def blocks(page, language):
    """Code blocks of a language, in order, without their fences."""
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), flags=re.DOTALL | re.MULTILINE)


def parts(page):
    """(generator, argument) of each generated part of a page."""
    return [(made, argument) for made, argument, _ in MADE.findall(page.read_text())]


def remade(page):
    """The text of a page with its generated parts as the code has them now."""

    def made(match):
        generator, argument, _ = match.groups()
        text = GENERATORS[generator](*filter(None, [argument])).strip("\n")
        opening = match[0].split("\n", 1)[0]
        return f"{opening}\n\n{text}\n\n<!-- end -->"

    return MADE.sub(made, page.read_text())
