"""The site of docs/: it builds without a warning, and nothing of it is loaded from elsewhere.

Skipped where the `docs` extra is not installed; .ci/run installs it.
"""

import re
import shutil
import subprocess
import sys
from importlib.util import find_spec

import pytest

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
    command = [sys.executable, "-m", "zensical", "build", "--strict"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    return done, folder / "site"


def test_it_builds_without_a_warning(built):
    done, site = built
    assert done.returncode == 0, done.stdout + done.stderr
    pages = {page.relative_to(DOCS).with_suffix("").as_posix() for page in DOCS.rglob("*.md")}
    shown = {page.parent.relative_to(site).as_posix() for page in site.rglob("index.html")}
    assert shown == {page.removesuffix("index").rstrip("/") or "." for page in pages}


def test_nothing_is_loaded_from_elsewhere(built):
    _, site = built
    loaded = [url for page in site.rglob("*.html") for url in LOADED.findall(page.read_text())]
    styled = [url for style in site.rglob("*.css") for url in STYLED.findall(style.read_text())]
    assert loaded
    assert [url for url in [*loaded, *styled] if re.match(r"(https?:)?//", url)] == []


def test_it_can_be_searched_and_read_in_the_dark(built):
    _, site = built
    assert "kvcache" in (site / "search.json").read_text()
    assert 'data-md-color-scheme="slate"' in (site / "index.html").read_text()
