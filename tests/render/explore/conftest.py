"""A browser, and the pages of drawings that it opens."""

import shutil

import pytest

import archcli

BROWSER, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")


@pytest.fixture(scope="module")
def browser():
    """A headless chromium that keeps what pages say on the console."""
    selenium = pytest.importorskip("selenium.webdriver", reason="no selenium: it is in the extra `dev`")
    if not (BROWSER and DRIVER):
        pytest.skip("no chromium (apt: chromium chromium-driver)")
    options = selenium.ChromeOptions()
    options.binary_location = BROWSER
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    driver = selenium.Chrome(options, selenium.ChromeService(DRIVER))
    leave = {"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]}
    driver.execute_cdp_cmd("Browser.grantPermissions", leave)
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """The file of a page on models, written once."""
    folder, written = tmp_path_factory.mktemp("pages"), {}

    def page(*models):
        if models not in written:
            written[models] = archcli.draw(*models).save(folder / f"{'-'.join(models)}.html")
        return written[models]

    return page
