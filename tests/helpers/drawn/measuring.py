"""Drawings as Chromium lays them out, in three fonts and widths and in both colour schemes."""

import shutil
from contextlib import contextmanager
from pathlib import Path

BROWSER, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
WIDTHS = (800, 1000, 1400)
FONTS = ("", "DejaVu Sans", "Liberation Sans")
"""The first is the drawing's own."""
SCHEMES = ("light", "dark")
LAYOUT, COLOURS = (
    (Path(__file__).parent / name).read_text(encoding="utf-8") for name in ("measuring.js", "colours.js")
)
ARGUMENTS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--force-device-scale-factor=1",
)


@contextmanager
def chromium():
    """A headless browser with an empty page."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for argument in ARGUMENTS:
        options.add_argument(argument)
    driver = webdriver.Chrome(options, webdriver.ChromeService(DRIVER))
    try:
        driver.get("data:text/html,<!doctype html><title>drawings</title><body></body>")
        resized(driver, max(WIDTHS), 900)
        yield driver
    finally:
        driver.quit()


def resized(driver, width, height):
    """Give the page a screen of this size."""
    screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)


def in_scheme(driver, scheme):
    """Have the page prefer light or dark."""
    media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)


def measured(driver, svg):
    """The layout of a drawing in all fonts and widths, and its colours in both schemes."""
    layout = driver.execute_script(LAYOUT, svg, FONTS, WIDTHS)
    layout["colours"] = {}
    for scheme in SCHEMES:
        in_scheme(driver, scheme)
        layout["colours"][scheme] = driver.execute_script(COLOURS)
    return layout
