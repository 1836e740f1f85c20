"""One build of the page for all tests of it, and one browser a worker that has opened it."""

import pytest

from driving import FETCHED, KEEP_DRAWINGS, address, go, screen
from trying import built, chromium, site, visit


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """The folder of a site with the page."""
    base = tmp_path_factory.getbasetemp()
    return built((base.parent if base.name.startswith("popen-") else base) / "site-with-page")


@pytest.fixture(scope="session")
def page(folder, tmp_path_factory):
    """A browser that shows the page."""
    with site(folder) as served, chromium(tmp_path_factory.mktemp("profile"), served.proxy) as browser:
        visit(browser, served)
        yield browser


@pytest.fixture(scope="module")
def opened(page):
    """The browser that has opened the page. No test of this file may leave an error in its console."""
    page.get_log("browser")
    page.execute_script(KEEP_DRAWINGS)
    yield page
    severe = [entry for entry in page.get_log("browser") if entry["level"] == "SEVERE"]
    assert not severe, severe
    fetched = page.execute_script(FETCHED)
    assert all(name.startswith((address(page), "blob:", "data:")) for name in fetched), fetched


@pytest.fixture
def ready(opened):
    """The page as it opens, with the first preset; Python stays loaded."""
    screen(opened, 1400, "light")
    go(opened, "model=gpt2&tab=size")
    return opened
