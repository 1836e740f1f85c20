"""The page "Try it" built, served on this machine and opened in Chromium, with a log of what is fetched.

    with site(folder) as served, chromium(elsewhere=served.proxy) as browser:
        browser.get(served.address)
        ask(browser, ["params", "gpt2"])

The server compresses nothing and states no caching, as a plain host does. All that does not go to this machine
goes to a proxy that refuses it and keeps its address.
"""

import functools
import json
import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "docs" / "try" / "build.py"
BROWSER, DRIVER, NPM = shutil.which("chromium"), shutil.which("chromedriver"), shutil.which("npm")
FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-quic"),
    *("--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
BUILT_S, ANSWERED_S = 300, 120

needs_page = [
    pytest.mark.long,
    pytest.mark.xdist_group("browser"),
    pytest.mark.skipif(not (BROWSER and DRIVER), reason="no chromium (apt: chromium chromium-driver)"),
    pytest.mark.skipif(not NPM, reason="no npm, from which the page takes Pyodide"),
]


class Logged(SimpleHTTPRequestHandler):
    """Serves files; `fetched` of its server gets (path, bytes) of each that is sent."""

    def log_message(self, *args):
        pass

    def send_head(self):
        found = super().send_head()
        path = Path(self.translate_path(self.path))
        path = path / "index.html" if path.is_dir() else path
        self.server.fetched.append((self.path, path.stat().st_size if found and path.is_file() else 0))
        return found


class Refusing(BaseHTTPRequestHandler):
    """A proxy that passes nothing on; `fetched` of its server gets the addresses."""

    def log_message(self, *args):
        pass

    def do_GET(self):
        self.server.fetched.append(self.path)
        self.send_error(403)

    do_POST = do_CONNECT = do_HEAD = do_PUT = do_OPTIONS = do_GET


@contextmanager
def listening(handler):
    """A server of a thread of its own, which keeps what it is asked in `fetched`."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    server.fetched = []
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def site(folder):
    """The site below `folder`: its `address`, what was `fetched`, and the `proxy` with what went `elsewhere`."""
    with (
        listening(functools.partial(Logged, directory=str(folder))) as server,
        listening(Refusing) as proxy,
    ):
        yield SimpleNamespace(
            address=f"http://127.0.0.1:{server.server_port}/try/",
            fetched=server.fetched,
            proxy=f"127.0.0.1:{proxy.server_port}",
            elsewhere=proxy.fetched,
            close=lambda: (server.shutdown(), server.server_close()),
        )


@contextmanager
def chromium(profile, proxy):
    """A fresh headless Chromium with its data in `profile`, which keeps what pages say on the console."""
    selenium = pytest.importorskip("selenium.webdriver", reason="no selenium: it is in the extra `dev`")
    options = selenium.ChromeOptions()
    options.binary_location = BROWSER
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    for argument in (*FLAGS, f"--user-data-dir={profile}", f"--proxy-server=http://{proxy}"):
        options.add_argument(argument)
    driver = selenium.Chrome(options, selenium.ChromeService(DRIVER))
    driver.set_script_timeout(ANSWERED_S)
    try:
        yield driver
    finally:
        driver.quit()


def built(folder):
    """Build the page into folder/try once, whichever worker comes first; the folder."""
    done = subprocess.run(
        [sys.executable, str(BUILD), str(folder)],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=BUILT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (Path(folder) / "built.txt").write_text(done.stdout)
    return Path(folder)


ASK = """
const [argv, files, done] = arguments;
const held = Object.fromEntries(Object.entries(files).map(([name, value]) =>
  [name, typeof value === "string" ? value : Uint8Array.from(value)]));
window.archcli.ask(argv, held).then((text) => done({text}), (error) => done({error: error.message}));
"""


def answer(browser, argv, files=None):
    """{"text": …} or {"error": …}, as the page answers a command line."""
    return browser.execute_async_script(ASK, list(argv), files or {})


def ask(browser, argv, files=None):
    """The report of a command line that the page answers."""
    got = answer(browser, argv, files)
    assert "text" in got, got
    return json.loads(got["text"])
