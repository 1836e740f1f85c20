"""The page "Try it" built, served on this machine and opened in Chromium, with a log of what is fetched.

    with site(built(folder)) as served, chromium(profile, served.proxy) as browser:
        visit(browser, served)
        ask(browser, ["params", "gpt2"])

The server compresses nothing and states no caching, as a plain host does. What would leave this machine goes
to a proxy that refuses it.
"""

import functools
import json
import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from fcntl import LOCK_EX, flock
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from time import sleep
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
    """A proxy that passes nothing on: it knows no method, so that it answers 501."""

    def log_message(self, *args):
        pass


@contextmanager
def listening(handler):
    """A server of a thread of its own, which keeps what it is asked in `fetched`."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    server.fetched = []
    server.handle_error = lambda *_: None  # a browser that ends breaks its connections
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def site(folder):
    """The site below `folder`: `address`, what is `fetched`, how to `close` it, a `proxy` for the rest."""
    here = functools.partial(Logged, directory=str(folder))
    with listening(here) as server, listening(Refusing) as proxy:
        yield SimpleNamespace(
            address=f"http://127.0.0.1:{server.server_port}/try/",
            fetched=server.fetched,
            proxy=f"127.0.0.1:{proxy.server_port}",
            close=lambda: (server.shutdown(), server.server_close()),
        )


@contextmanager
def chromium(profile, proxy, *more):
    """A headless Chromium with its data in `profile`, which keeps what pages say on the console."""
    selenium = pytest.importorskip("selenium.webdriver", reason="no selenium: it is in the extra `dev`")
    options = selenium.ChromeOptions()
    options.binary_location = BROWSER
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    for argument in (*FLAGS, f"--user-data-dir={profile}", f"--proxy-server=http://{proxy}", *more):
        options.add_argument(argument)
    driver = selenium.Chrome(options, selenium.ChromeService(DRIVER))
    driver.set_script_timeout(ANSWERED_S)
    try:
        yield driver
    finally:
        driver.quit()


def built(folder):
    """The folder with the page in folder/try, built by whichever process of the tests comes first."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        flock(lock, LOCK_EX)
        if not (folder / "built.txt").exists():
            command = [sys.executable, str(BUILD), str(folder)]
            environment = os.environ | {"PYTHONPATH": str(ROOT)}
            done = subprocess.run(
                command, env=environment, capture_output=True, text=True, timeout=BUILT_S, check=False
            )
            assert done.returncode == 0, done.stdout + done.stderr
            (folder / "built.txt").write_text(done.stdout)
    assert (folder / "try" / "manifest.json").exists(), (folder / "built.txt").read_text()
    return folder


def visit(browser, served):
    """Open the page; it can be asked."""
    browser.get(served.address)
    for _ in range(ANSWERED_S * 20):
        if browser.execute_script("return Boolean(window.archcli)"):
            return
        sleep(0.05)
    raise AssertionError("\n".join(line["message"] for line in browser.get_log("browser")))


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
