"""archcli bench against a small server: the form of its rows, its times, and what does not answer."""

import csv
import io
import json
import re
import socket
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest

from archcli import bench, predict
from archcli.errors import ArchError
from table import every_row

FIRST_S, TOKEN_S = 0.06, 0.02


class Server(BaseHTTPRequestHandler):
    """Streams as many words as are asked for, the first after 60 ms and one each 20 ms after it."""

    facts: ClassVar = {
        "/v1/models": {"data": [{"id": "meta-llama/Llama-3.1-8B", "owned_by": "vllm"}]},
        "/version": {"version": "0.33.0"},
    }
    asked: ClassVar = []
    streams = True

    def log_message(self, *_):
        """Say nothing."""

    def do_GET(self):
        self.send_response(200 if self.path in self.facts else 404)
        self.end_headers()
        self.wfile.write(json.dumps(self.facts.get(self.path, {})).encode())

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.asked.append(asked)
        self.send_response(200)
        self.end_headers()
        if not self.streams:
            self.wfile.write(b"not what is asked for\n")
            return
        time.sleep(FIRST_S)
        for i in range(asked["max_tokens"]):
            time.sleep(TOKEN_S if i else 0)
            self.send({"choices": [{"text": "word"}]})
        words, new = len(asked["prompt"].split()), asked["max_tokens"]
        self.send({"choices": [], "usage": {"prompt_tokens": words, "completion_tokens": new}})
        self.wfile.write(b"data: [DONE]\n\n")

    def send(self, chunk):
        """One event."""
        self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
        self.wfile.flush()


@contextmanager
def served(**changes):
    """The address of a server, with other facts."""
    handler = type("Changed", (Server,), {"asked": [], **changes})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1", handler
    finally:
        server.shutdown()
        server.server_close()


def test_rows_of_a_server():
    with served() as (url, handler):
        report = bench(url, "rtx-4090", name="llama-3.1-8b", seq_len=16, new=5, batch_size=2)
    rows = report.rows
    assert rows[0]["metric"] == "first_ms"  # the example of its docstring
    assert [(row["kind"], row["metric"], row["ask"]["batch_size"]) for row in rows] == [
        ("bench_first", "first_ms", 1),
        ("bench_token", "ms_token", 1),
        ("bench_first", "first_ms", 2),
        ("bench_token", "ms_token", 2),
    ]
    # a sleep is never shorter, and on a busy machine longer
    for row in rows:
        least = 1e3 * (FIRST_S if row["metric"] == "first_ms" else TOKEN_S)
        assert least * 0.98 <= row["measured"] < 5 * least
    assert rows[0]["ask"] == {
        "device": "rtx-4090",
        "engine": "vllm",
        "phase": "serve",
        "batch_size": 1,
        "seq_len": 16,
        "new": 5,
    }
    assert rows[1]["ask"]["past"] == 16 + 2
    source = re.compile(r"archcli bench \(vllm 0\.33\.0, \d{4}-\d\d-\d\d\)")
    assert all(source.fullmatch(row["source"]) for row in rows)
    # four runs each of one and of two: no prompt is that of another, which a server might have kept
    assert len({asked["prompt"] for asked in handler.asked}) == len(handler.asked) == 4 + 8
    assert all(asked["stream"] and asked["max_tokens"] == 5 for asked in handler.asked)


def test_a_row_is_a_question_of_predict():
    with served() as (url, _):
        known = {"name": "llama-3.1-8b", "dtype": "q4_k_m", "engine": "llamacpp"}
        report = bench(url, "rtx-4090", **known, seq_len=8, new=3)
    for row in report.rows:
        predict(row["model"], **row["ask"])


def test_the_command_writes_a_table(cli, tmp_path):
    with served() as (url, _):
        sizes = ("-s", "8", "--new", "3", "-b", "1")
        done = cli("bench", url, "--device", "4090", *sizes, "-o", tmp_path / "rows.csv")
    assert done.code == 0, done.err
    rows = list(csv.DictReader(io.StringIO((tmp_path / "rows.csv").read_text())))
    columns = "id kind group source model sets ask metric measured note"
    assert list(rows[0]) == columns.split()
    assert (rows[0]["model"], rows[0]["sets"]) == ("meta-llama/Llama-3.1-8B", "[]")
    assert json.loads(rows[1]["ask"]) == {
        "device": "4090",
        "engine": "vllm",
        "phase": "decode",
        "batch_size": 1,
        "past": 9,
    }


def test_a_version_of_other_servers():
    facts = {**Server.facts, "/props": {"build_info": "b7000-abc"}}
    facts["/v1/models"] = {"data": [{"id": "model.gguf", "owned_by": "llamacpp"}]}
    del facts["/version"]
    with served(facts=facts) as (url, _):
        report = bench(url, "rtx-4090", seq_len=4, new=2, batch_size=1)
    assert "llamacpp b7000-abc" in report.rows[0]["source"]


@every_row(
    ("facts", "what"),
    [
        ({}, "answers 404"),
        ({"/v1/models": {"data": []}}, "lists no model"),
        ({"/v1/models": ["a", "b"]}, "lists no model"),
        (
            {"/v1/models": {"data": [{"id": "m", "owned_by": "library"}]}},
            "of no known engine: library",
        ),
    ],
)
def test_what_no_such_server_says(facts, what):
    with served(facts=facts) as (url, _), pytest.raises(ArchError, match=re.escape(what)):
        bench(url, "rtx-4090", seq_len=4, new=2)


def test_a_server_that_streams_nothing():
    with served(streams=False) as (url, _), pytest.raises(ArchError, match="streams 0 tokens"):
        bench(url, "rtx-4090", seq_len=4, new=2)


def closed_port():
    """A port on which nobody listens."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@every_row(
    ("address", "what"),
    [
        (f"http://127.0.0.1:{closed_port()}/v1", "does not answer: [Errno 111] Connection refused"),
        ("http://127.0.0.1:1:1/v1", "does not answer"),
        ("file:///etc/passwd", "is no address of a server"),
        ("localhost:8000", "is no address of a server"),
    ],
)
def test_what_does_not_answer(address, what, cli):
    done = cli("bench", address, "--device", "rtx-4090")
    assert done.code == 2
    error, hint = done.err.strip().splitlines()
    assert what in error
    assert "http://localhost:8000/v1" in hint
