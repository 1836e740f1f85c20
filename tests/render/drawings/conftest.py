"""One browser for all drawings that a process looks at."""

import pytest

from drawn.measuring import BROWSER, DRIVER, chromium


@pytest.fixture(scope="session")
def browser():
    """A headless chromium with an empty page."""
    pytest.importorskip("selenium.webdriver", reason="no selenium: it is in the extra `dev`")
    if not (BROWSER and DRIVER):
        pytest.skip("no chromium (apt: chromium chromium-driver)")
    with chromium() as driver:
        yield driver
