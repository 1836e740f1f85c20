"""config.json from a server that answers as the Hugging Face hub does, and every way not to get one."""

import json
import os
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest

from archcli.load.hub import download
from hub.cache import CONFIG, PARAMS, SHA, answer, cached
from table import every_row


class Hub(BaseHTTPRequestHandler):
    """What the hub answers of one repository: `answers` maps METHOD or a path to (status, headers, body)."""

    answers: ClassVar[dict] = {}
    asked: ClassVar[list] = []

    def do_HEAD(self):
        self.reply("HEAD")

    def do_GET(self):
        self.reply("GET")

    def reply(self, method):
        self.asked.append((method, self.path, self.headers.get("authorization")))
        of_file = self.answers.get(self.path) or self.answers.get(method, self.answers["HEAD"])
        status, headers, body = of_file
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if method == "GET":
            self.wfile.write(body)

    def log_message(self, *args):
        pass


@contextmanager
def serving(status, headers=None, body=b"", **more):
    handler = type(
        "Handler", (Hub,), {"answers": {"HEAD": (status, headers or {}, body), **more}, "asked": []}
    )
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", handler.asked
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def ask(tmp_path):
    """`archcli params MODEL --json` with a hub of that address, an empty cache, and a clean environment."""

    def run(endpoint, model="org/name", **variables):
        env = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("HF_", "HUGGING", "TRANSFORMERS"))
        }
        env |= {
            "HF_HOME": str(tmp_path / "home"),
            "HF_ENDPOINT": endpoint,
            "NO_PROXY": "127.0.0.1",
            **variables,
        }
        command = [sys.executable, "-m", "archcli", "params", model, "--json"]
        return subprocess.run(
            command, capture_output=True, text=True, timeout=120, check=False, env=env, cwd=tmp_path
        )

    return run


BODY = json.dumps(CONFIG).encode()
GOOD = {"X-Repo-Commit": SHA, "ETag": '"abc"'}
PATH = "/org/name/resolve/main/config.json"


@pytest.mark.long
def test_what_is_not_cached_is_fetched_once(ask):
    with serving(200, GOOD, BODY) as (endpoint, asked):
        first, second = ask(endpoint), ask(endpoint)
    assert (first.returncode, first.stderr) == (0, "")
    assert {path for _, path, _ in asked} == {PATH}
    assert [method for method, _, _ in asked].count("GET") == 1
    shown = json.loads(first.stdout)
    assert shown["totals"]["params"] == PARAMS
    assert shown["model"] == {"name": "org/name", "source": f"hf://org/name@{SHA}"}
    assert shown["notes"][-1] == f"config.json of hf://org/name@{SHA}, fetched from the hub"
    assert json.loads(second.stdout)["notes"][-1].endswith("from the cache of the hub")


QUANT = json.dumps({"quantization": {"quant_algo": "FP8", "exclude_modules": ["lm_head"]}}).encode()
NONE = (404, {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": SHA}, b"")


@pytest.mark.long
@pytest.mark.parametrize(
    ("found", "packed"), [((200, {**GOOD, "ETag": '"def"'}, QUANT), True), (NONE, False)]
)
def test_the_file_of_modelopt_is_fetched_where_the_name_says_a_width(ask, found, packed):
    """A config.json that says nothing of it, of a repository whose name does."""
    paths = [f"/org/name-FP8/resolve/{revision}/hf_quant_config.json" for revision in ("main", SHA)]
    with serving(200, GOOD, BODY, **dict.fromkeys(paths, found)) as (endpoint, _):
        done = ask(endpoint, "org/name-FP8")
    assert (done.returncode, done.stderr) == (0, "")
    widths = json.loads(done.stdout)["totals"]["params_by_width"]
    assert ("8" in widths) is packed


@pytest.mark.long
def test_a_token_goes_along(ask):
    with serving(200, GOOD, BODY) as (endpoint, asked):
        assert ask(endpoint, HF_TOKEN="hf_secret").returncode == 0  # noqa: S106
    assert {token for _, _, token in asked} == {"Bearer hf_secret"}


@pytest.mark.long
def test_another_revision_is_asked_for(ask):
    with serving(200, GOOD, BODY) as (endpoint, asked):
        assert ask(endpoint, "hf://org/name@refs/pr/1").returncode == 0
    assert asked[0][1] == "/org/name/resolve/refs%2Fpr%2F1/config.json"


GATED = "a gated model, which this user may not read"
NO_REPO = "no such model on the hub, or a private one"

# each: status, headers, what is said
REFUSED = {
    "gated": (401, {"X-Error-Code": "GatedRepo"}, GATED),
    "gated-for-this-user": (403, {"X-Error-Code": "GatedRepo"}, GATED),
    "no-repo": (404, {"X-Error-Code": "RepoNotFound"}, NO_REPO),
    "unauthorized": (401, {}, "answers 401"),
    "bad-token": (401, {"X-Error-Message": "Invalid credentials in Authorization header"}, "answers 401"),
    "forbidden": (403, {}, "answers 403"),
    "no-revision": (404, {"X-Error-Code": "RevisionNotFound"}, "the model has no revision 'main'"),
    "no-config": (
        404,
        {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": SHA},
        "the model has no config.json",
    ),
    "disabled": (403, {"X-Error-Message": "Access to this resource is disabled."}, "answers 403"),
    "too-many": (429, {"Retry-After": "600"}, "answers 429"),
    "no-such-page": (404, {}, "answers 404; HF_ENDPOINT says where the hub is"),
    "broken": (500, {}, "answers 500; try again later"),
    "away": (503, {}, "answers 503"),
    "no-hub": (200, {"ETag": '"abc"'}, "does not answer as a hub does"),
    "no-commit": (
        200,
        {**GOOD, "X-Repo-Commit": "../../../out"},
        "it names '../../../out', which is no commit",
    ),
    "huge": (200, {**GOOD, "Content-Length": str(9 << 20)}, "its config.json is larger than 8 MiB"),
}


@pytest.fixture
def here(cache, monkeypatch):
    """The library in this process with a hub of that address."""
    from huggingface_hub import constants

    def at(endpoint):
        monkeypatch.setattr(constants, "ENDPOINT", endpoint)
        monkeypatch.setattr(
            constants, "HUGGINGFACE_CO_URL_TEMPLATE", endpoint + "/{repo_id}/resolve/{revision}/{filename}"
        )
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)

    return at


@pytest.mark.long
@every_row(("status", "headers", "said"), REFUSED.values(), ids=REFUSED)
def test_a_refusal_is_one_line_and_no_second_question(status, headers, said, here):
    with serving(status, headers) as (endpoint, asked):
        here(endpoint)
        found = answer("org/name")
    assert found.startswith("hf://org/name@main: ")
    assert said in found
    assert "; " in found
    assert "\n" not in found
    assert [method for method, _, _ in asked] == ["HEAD"]


@pytest.mark.long
def test_a_connection_that_breaks_is_not_tried_again(ask):
    tried = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept():
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                tried.append(connection.recv(1 << 16)[:4])
                connection.close()

        threading.Thread(target=accept, daemon=True).start()
        done = ask(f"http://127.0.0.1:{server.getsockname()[1]}")
    assert done.returncode == 2
    assert "cannot be reached (RemoteProtocolError)" in done.stderr
    assert tried == [b"HEAD"]


def test_a_server_that_says_nothing_is_waited_for_once(here, monkeypatch):
    monkeypatch.setattr(download, "TIMEOUT_S", (0.3, 0.3, 0.3, 0.3))
    with socket.create_server(("127.0.0.1", 0)) as server:
        here(f"http://127.0.0.1:{server.getsockname()[1]}")
        assert "cannot be reached (ReadTimeout); check the network" in answer("org/name")
        server.setblocking(False)
        first, _ = server.accept()
        first.close()
        with pytest.raises(BlockingIOError):
            server.accept()


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("endpoint", "said"),
    [
        (
            "http://127.0.0.1:1",
            "cannot be reached (ConnectError)\n  = help: check the network; what has been fetched once is",
        ),
        (
            "http://nowhere.invalid",
            "cannot be reached (ConnectError)\n  = help: check the network; what has been fetched once is",
        ),
        ("127.0.0.1", "cannot be reached (UnsupportedProtocol)\n  = help: check the network; "),
        ("http://[", "hf://org/name@main: error: "),
    ],
)
def test_no_network_is_told(endpoint, said, ask):
    done = ask(endpoint)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


@pytest.mark.long
@pytest.mark.parametrize("variable", ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"])
def test_offline_nothing_is_asked(variable, ask, tmp_path):
    with serving(200, GOOD, BODY) as (endpoint, asked):
        absent = ask(endpoint, **{variable: "1"})
        cached(tmp_path / "home" / "hub", "org/name", SHA, CONFIG)
        present = ask(endpoint, **{variable: "1"})
    assert asked == []
    assert (absent.returncode, present.returncode) == (2, 0)
    assert "error: not in the cache, and HF_HUB_OFFLINE forbids to ask the hub" in absent.stderr


@pytest.mark.long
def test_a_cache_that_cannot_be_written_is_told(ask, tmp_path):
    (tmp_path / "file").write_text("")
    with serving(200, GOOD, BODY) as (endpoint, _):
        done = ask(endpoint, HF_HUB_CACHE=str(tmp_path / "file" / "hub"))
    assert done.returncode == 2
    assert "error: cannot be kept in the cache: Not a directory" in done.stderr
