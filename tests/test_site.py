"""The site of docs/: it builds without a warning, and nothing of it is loaded from elsewhere.

Skipped where the `docs` extra is not installed; .ci/run installs it.
"""

import json
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec

import pytest

from docs_site import ASK_IT
from pages import DOCS, ROOT

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(find_spec("zensical") is None, reason="the docs extra is not installed"),
]
LOADED = re.compile(r"""<(?:script|link|img|iframe|source|video)\b[^>]*?\b(?:src|href)=["']?([^"' >]+)""")
STYLED = re.compile(r"""(?:@import\s*|url\()["']?([^"')]+)""")


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """(what the build printed, the folder of the site)."""
    folder = tmp_path_factory.mktemp("site")
    shutil.copy(ROOT / "mkdocs.yml", folder)
    shutil.copytree(DOCS, folder / "docs")
    command = [sys.executable, str(ROOT / "release" / "docs_site.py"), str(folder)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    return done, folder / "site"


def test_it_builds_without_a_warning(built):
    done, site = built
    assert done.returncode == 0, done.stdout + done.stderr
    pages = {page.relative_to(DOCS).with_suffix("").as_posix() for page in DOCS.rglob("*.md")}
    shown = {page.parent.relative_to(site).as_posix() for page in site.rglob("index.html")}
    tried = {"try"} if shutil.which("npm") else set()
    assert shown == {page.removesuffix("index").rstrip("/") or "." for page in pages} | tried


def test_nothing_is_loaded_from_elsewhere(built):
    _, site = built
    loaded = [url for page in site.rglob("*.html") for url in LOADED.findall(page.read_text())]
    styled = [url for style in site.rglob("*.css") for url in STYLED.findall(style.read_text())]
    assert loaded
    assert [url for url in [*loaded, *styled] if re.match(r"(https?:)?//", url)] == []


def test_sentences_of_outputs_wrap_and_tables_do_not(built):
    _, site = built
    page = (site / "commands" / "predict" / "index.html").read_text()
    assert re.search(r'<script src="[./]*wrap\.js', page)
    assert '<span class="go">' in page  # what wrap.js looks for: a line of an output
    styles = dict(
        re.findall(
            r"^\.highlight (\.go\S*) \{ white-space: ([\w-]+)", (site / "style.css").read_text(), re.MULTILINE
        )
    )
    assert styles == {".go": "pre", ".go.sentence": "pre-wrap"}


def test_it_can_be_searched_and_read_in_the_dark(built):
    _, site = built
    assert "kvcache" in (site / "search.json").read_text()
    assert 'data-md-color-scheme="slate"' in (site / "index.html").read_text()


def test_programs_find_every_page(built):
    """llms.txt as llmstxt.org has it: a heading, a quotation, sections of links; each leads to a file."""
    _, site = built
    heading, quotation, asking, *parts = (site / "llms.txt").read_text().strip().split("\n\n")
    assert (heading, quotation[:2], asking) == ("# archcli", "> ", ASK_IT)
    links = re.findall(r"^- \[[^\]]+\]\(([^)]+)\)(?:: .+)?$", "\n".join(parts), flags=re.MULTILINE)
    lines = [line for line in "\n".join(parts).splitlines() if line and not line.startswith("## ")]
    pages = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}
    assert (len(lines), {*links}) == (len(links), pages)
    assert all((site / link).read_text() == (DOCS / link).read_text() for link in links)
    whole = (site / "llms-full.txt").read_text()
    assert all((DOCS / page).read_text().split("\n", 1)[0] in whole.splitlines() for page in pages)
    assert json.loads((site / "schema.json").read_text())["title"] == "archcli architecture"
