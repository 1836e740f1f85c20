"""Builds the site of docs/, and beside its pages what programs read.

That is llms.txt, llms-full.txt, the Markdown of every page, and schema.json. The page in which
archcli runs comes into try/ (docs/try/build.py).

    python release/docs_site.py [FOLDER]

FOLDER holds mkdocs.yml and docs/, and gets site/. The form of llms.txt is that of llmstxt.org; its links are
absolute once `[project.urls]` of pyproject.toml names the documentation.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from tempfile import TemporaryDirectory

from model_pages import write_models
from search_index import shorten_index
from site_parts import write_parts

ROOT = Path(__file__).parents[1]
ENTRY = re.compile(r"^( *)- ([^:\n]+):(?: (\S+\.md))?$", re.MULTILINE)
COMMENT = re.compile(r"<!--.*?-->\n*", re.DOTALL)
DESCRIPTION = re.compile(r"---\n(?:.*\n)*?description: (.+)\n(?:.*\n)*?---\n")
SENTENCE = r"(?<=\.)\s(?=[A-Z`])"
TOP = 2
"""How far the entries of the navigation itself are indented."""

OPTIONAL = {"Background", "Development"}
"""Sections that a reader short of room may leave out."""


def sections(navigation: str) -> dict[str, list[tuple[str, str]]]:
    """(title, page) of each section of mkdocs.yml; pages outside of sections are in Docs."""
    listed: dict[str, list[tuple[str, str]]] = {"Docs": []}
    current = "Docs"
    for indent, title, page in ENTRY.findall(navigation.split("\nnav:\n")[1]):
        if len(indent) <= TOP:
            current = "Docs" if page else title
        listed.setdefault(current, [])
        if page:
            listed[current].append((title, page))
    return listed


def summary(text: str) -> str:
    """The first sentence of a page, or of its front matter; empty where a table or code stands there."""
    if about := DESCRIPTION.match(text):
        return re.split(SENTENCE, about[1])[0]
    first = next((part for part in COMMENT.sub("", text).split("\n\n")[1:] if part.strip()), "")
    plain = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", " ".join(first.split()))
    sentence = re.split(SENTENCE, plain)[0].rstrip(":")
    return "" if sentence.startswith(("#", "|", "`" * 3, "-")) else sentence


ASK_IT = (
    "For an assistant: ask archcli instead of answering from memory. `archcli mcp` serves it as tools "
    "(params, flops, kvcache, memory, predict, fit, choose, check, compare, explain, sweep, draw), and each "
    "is a command: `archcli params llama-3.1-8b --json`. A model is a preset's name or the content of its "
    "config.json. Counts are exact integers, a FLOP is half a multiply-add, sizes are bytes; predicted times "
    "come with a range. Repeat figures as they are, with their convention. The skill file among the pages "
    "below says which tool answers what."
)
"""What llms.txt tells an assistant."""


def llms(docs: Path, listed: dict[str, list[tuple[str, str]]], address: str) -> str:
    """llms.txt: what archcli is, and a link to every page with its first sentence."""
    home = (docs / "index.md").read_text()
    intro = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", " ".join(home.split("\n\n")[1].split()))
    lines = ["# archcli", "", f"> {intro}", "", ASK_IT]
    ordered = sorted(listed, key=lambda section: section in OPTIONAL)
    for section in ordered:
        if section not in OPTIONAL:
            lines += ["", f"## {section}", ""]
        elif "## Optional" not in lines:
            lines += ["", "## Optional", ""]
        for title, page in listed[section]:
            about = summary((docs / page).read_text())
            lines.append(f"- [{title}]({address}{page})" + (f": {about}" if about else ""))
    return "\n".join(lines) + "\n"


def write_for_programs(folder: Path, address: str) -> None:
    """Add to the built site what programs read."""
    docs, site = folder / "docs", folder / "site"
    listed = sections((folder / "mkdocs.yml").read_text())
    pages = [page for entries in listed.values() for _, page in entries]
    (site / "llms.txt").write_text(llms(docs, listed, address))
    (site / "llms-full.txt").write_text(
        "\n\n".join(COMMENT.sub("", (docs / page).read_text()) for page in pages)
    )
    for page in pages:
        shutil.copy(docs / page, site / page)
    shutil.copy(ROOT / "presets" / "schema.json", site)


def widen(docs: Path) -> None:
    """Give pages of pictures the room of the list of contents."""
    for page in (docs / "index.md", docs / "gallery.md", *(docs / "gallery").glob("*.md")):
        page.write_text("---\nhide:\n  - toc\n---\n\n" + page.read_text())


def build(folder: Path) -> int:
    """Build the pages from a copy of docs/ that has the pages which are made for the site; the exit code."""
    with TemporaryDirectory() as name:
        stage = Path(name)
        shutil.copy(folder / "mkdocs.yml", stage)
        shutil.copytree(folder / "docs", stage / "docs")
        write_models(stage / "docs")
        write_parts(stage / "docs")
        widen(stage / "docs")
        done = subprocess.run([sys.executable, "-m", "zensical", "build", "--strict"], cwd=stage, check=False)
        if done.returncode == 0:
            shorten_index(stage / "site" / "search.json")
            shutil.rmtree(folder / "site", ignore_errors=True)
            shutil.copytree(stage / "site", folder / "site")
        return done.returncode


def main(folder: Path) -> int:
    """Build; the exit code of the first step that fails."""
    code = build(folder)
    if code == 0:
        urls = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"].get("urls", {})
        address = urls.get("Documentation", "").rstrip("/")
        write_for_programs(folder, address and f"{address}/")
        page = [sys.executable, str(ROOT / "docs" / "try" / "build.py"), str(folder / "site")]
        return subprocess.run(page, check=False).returncode
    return code


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT))
