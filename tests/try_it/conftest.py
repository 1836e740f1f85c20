"""One build of the page for all tests of it, and one browser a worker that has opened it."""

import pytest

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
