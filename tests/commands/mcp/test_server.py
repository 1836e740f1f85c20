"""`archcli mcp` as a process: what it prints, how it ends, and how it bears bad lines and bad clients."""

import json
import os
import shlex
import signal
import subprocess
import sys
import threading
import time

import anyio
import pytest

import archcli
from archcli.wings.doors.commands.mcp.answers import MOST_BYTES
from archcli.wings.doors.commands.mcp.server import result_of
from assistant import COMMAND, ROOT, in_process, over_stdio

INITIALIZE = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}
SLOW = {"model": "gpt2", "vary": ["d_ff=64:6400000:64"], "where": ["peak_bytes(phase=decode) > 0"]}
"""A question whose answer takes a minute: each of 100,000 candidates is traced."""


PRESET = ROOT / "presets" / "gpt2.yaml"
CONFIG = json.dumps(
    {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 128,
        "vocab_size": 1000,
    }
)
ADAPTER = {"peft_type": "LORA", "r": 8, "target_modules": ["q_proj"]}


class Server:
    """A process of `archcli mcp`, to which lines are sent."""

    def __init__(self, *args):
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        self.process = subprocess.Popen([sys.executable, *COMMAND, *args], env=env, text=True, **pipes)

    def send(self, method, number=None, **params):
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        self.line(json.dumps(message if number is None else message | {"id": number}))

    def line(self, text):
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()

    def call(self, number, name, **arguments):
        self.send("tools/call", number, name=name, arguments=arguments)

    def start(self):
        self.send("initialize", 0, **INITIALIZE)
        answer = self.read()
        self.send("notifications/initialized")
        return answer

    def read(self):
        return json.loads(self.process.stdout.readline())

    def end(self):
        """(exit code, the messages that were left, standard error) after the end of input."""
        out, err = self.process.communicate(timeout=60)
        return self.process.returncode, [json.loads(line) for line in out.splitlines()], err


@pytest.fixture
def server():
    started = Server()
    yield started
    started.process.kill()
    started.process.communicate(timeout=60)


@pytest.mark.long
def test_it_says_who_it_is_and_what_to_ask(server):
    answer = server.start()["result"]
    assert answer["serverInfo"]["name"] == "archcli"
    assert answer["serverInfo"]["version"] == archcli.__version__
    for words in ("from memory", "2 per multiply-add", "exact", "rows=true", "params", "predict"):
        assert words in answer["instructions"]
    assert len(answer["instructions"]) < MOST_BYTES
    assert set(answer["capabilities"]) >= {"tools"}


@pytest.mark.long
def test_nothing_but_the_protocol_is_printed_and_the_end_of_input_ends_it(server):
    server.start()
    server.call(1, "params", model="gpt2")
    server.call(2, "params", model="nothing-like-it")
    server.call(3, "kvcache", model="llama-3.1-8b", context="128k", memory="80G")  # both are noted
    server.send("tools/list", 4)
    answered = {answer["id"]: answer["result"] for answer in (server.read() for _ in range(4))}
    assert answered[1]["structuredContent"]["totals"]["params"] == 124_439_808
    assert answered[2]["isError"] is True
    assert len(answered[4]["tools"]) == 12
    assert server.end() == (0, [], "")


@pytest.mark.long
@pytest.mark.parametrize("when", ["idle", "busy"])
def test_an_interrupt_ends_it_quietly(server, when):
    server.start()
    if when == "busy":
        server.call(1, "sweep", **SLOW)
        time.sleep(0.5)
    server.process.send_signal(signal.SIGINT)
    assert server.process.wait(timeout=60) == 130
    assert server.end() == (130, [], "")


@pytest.mark.long
@pytest.mark.parametrize(
    ("streams", "code", "words"),
    [
        (("<&-",), 0, ""),
        (("</dev/null",), 0, ""),
        (("</dev/zero",), 2, "error: standard input is a device"),
        ((">/dev/full",), 2, "error: cannot write to standard output"),
        ((">&-",), 2, "error: cannot write to standard output"),
    ],
)
def test_streams_that_are_closed_or_full_are_an_error_line(streams, code, words):
    asked = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": INITIALIZE})
    line = shlex.join([sys.executable, *COMMAND]) + f" {' '.join(streams)}"
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        ["/bin/sh", "-c", line],
        input=asked + "\n",
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.startswith(words)
    assert len(done.stderr.splitlines()) <= 2


@pytest.mark.long
def test_the_end_of_input_ends_it_while_it_computes(server):
    server.start()
    server.call(1, "sweep", **SLOW)
    time.sleep(0.5)
    code, left, err = server.end()
    assert (code, err) == (0, "")
    assert not any("structuredContent" in answer.get("result", {}) for answer in left)


@pytest.mark.long
def test_a_client_that_is_gone_ends_it_quietly(server):
    server.start()
    server.process.stdout.close()
    server.call(1, "params", model="gpt2")
    server.process.stdin.close()
    server.process.wait(timeout=60)
    assert server.process.stderr.read() == ""
    server.process.stdin = server.process.stdout = None


LARGE = {
    "jsonrpc": "2.0",
    "id": 12,
    "method": "tools/call",
    "params": {"name": "params", "arguments": {"model": "x" * 20_000_000}},
}
BAD = [
    "{",
    "[]",
    "null",
    '{"jsonrpc": "2.0", "id": 7, "method": "tools/call"}',
    '{"jsonrpc": "2.0", "id": 8, "method": "nothing/there"}',
    '{"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": {"name": 1}}',
    '{"jsonrpc": "2.0", "id": 10, "method": "tools/call", "params": {"name": "params", "arguments": [1]}}',
    '{"jsonrpc": "2.0", "id": 11, "method": "tools/call", "params": {"name": "flops", "arguments": {"s": NaN}}}',  # noqa: E501
    "\x00\x1b[2J",
    "[" * 100_000,
    json.dumps(LARGE),
]


@pytest.mark.long
def test_bad_lines_are_errors_and_the_next_question_is_answered(server):
    server.start()
    for line in BAD:
        server.line(line)
    server.call(99, "params", model="gpt2")
    answered = {}
    while 99 not in answered:
        answer = server.read()
        answered[answer.get("id")] = answer
    assert answered[99]["result"]["structuredContent"]["totals"]["params"] == 124_439_808
    assert all("Traceback" not in json.dumps(answer) for answer in answered.values())
    for number in (7, 8, 9, 10):
        assert "error" in answered[number]
    code, left, err = server.end()
    large = {answer["id"]: answer for answer in left} | answered
    assert large[12]["result"]["isError"] is True
    assert "20,000,000 characters" in large[12]["result"]["content"][0]["text"]
    assert (code, err) == (0, "")


@pytest.mark.long
def test_a_question_that_is_cancelled_is_not_answered_and_keeps_nobody_waiting(server):
    server.start()
    server.call(1, "sweep", **SLOW)
    time.sleep(0.5)
    server.send("notifications/cancelled", requestId=1, reason="enough")
    server.call(2, "params", model="gpt2")
    begun = time.monotonic()
    answer = server.read()
    while answer.get("id") != 2:  # an answer to the first may say that it is cancelled
        assert "structuredContent" not in answer.get("result", {})
        answer = server.read()
    assert answer["result"]["structuredContent"]["totals"]["params"] == 124_439_808
    assert time.monotonic() - begun < 30
    assert server.end()[0] == 0


@pytest.mark.long
def test_a_cancelled_question_stops_computing():
    stop = threading.Event()
    answers = []
    asked = threading.Thread(target=lambda: answers.append(result_of("sweep", SLOW, None, stop)))
    asked.start()
    time.sleep(0.3)
    stop.set()
    asked.join(timeout=60)
    assert not asked.is_alive()
    assert answers[0].content[0].text == "cancelled"


@pytest.mark.long
@pytest.mark.parametrize("session", [in_process, pytest.param(over_stdio, marks=pytest.mark.long)])
def test_questions_at_once_have_each_its_answer(session):
    models = ["gpt2", "llama-3.1-8b", "deepseek-v3", "mixtral-8x7b", "bert-base-uncased"] * 3

    async def ask(client):
        answers = {}

        async def one(i, model):
            name, arguments = ("params", {"model": model}) if i % 2 else ("flops", {"model": model})
            answers[i] = (await client.call_tool(name, arguments)).structured_content["totals"]

        async with anyio.create_task_group() as group:
            for i, model in enumerate(models):
                group.start_soon(one, i, model)
        return answers

    alone = {
        model: (archcli.count_flops(model).totals, archcli.count_params(model).totals) for model in models
    }
    answers = session(ask)
    found = {i: answers[i].get("params", answers[i].get("matmul_flops")) for i in range(len(models))}
    expected = {
        i: alone[model][1]["params"] if i % 2 else alone[model][0]["matmul_flops"]
        for i, model in enumerate(models)
    }
    assert found == expected


@pytest.mark.long
def test_a_folder_is_read_and_nothing_beside_it(tmp_path):
    inside, outside = tmp_path / "models", tmp_path / "secrets"
    inside.mkdir()
    outside.mkdir()
    text = PRESET.read_text()
    (inside / "mine.yaml").write_text(text)
    (outside / "theirs.yaml").write_text(text)
    (inside / "link.yaml").symlink_to(outside / "theirs.yaml")
    names = ["mine.yaml", "./mine.yaml", str(inside / "mine.yaml")]
    refused = ["../secrets/theirs.yaml", str(outside / "theirs.yaml"), "link.yaml", "missing.yaml", ".", ".."]

    async def ask(client):
        return [await client.call_tool("params", {"model": name}) for name in [*names, *refused]]

    with_folder = in_process(ask, inside)
    assert [answer.is_error for answer in with_folder] == [False] * 3 + [True] * 6
    assert with_folder[0].structured_content["totals"]["params"] == 124_439_808
    assert all("outside of the folder" in answer.content[0].text for answer in with_folder[3:6])
    without = in_process(ask)
    assert all(answer.is_error for answer in without)
    assert not any("theirs" in answer.content[0].text.replace("theirs.yaml'", "") for answer in without)


def asked_of(model, folder=None):
    """(whether it is an error, the text) of `params` for a model."""
    answer = result_of("params", {"model": model}, folder, threading.Event())
    return bool(answer.is_error), answer.content[0].text


@pytest.mark.parametrize("with_folder", [False, True], ids=["no folder", "folder"])
def test_a_model_that_names_another_reads_no_file_beside_the_folder_and_no_hub(
    tmp_path, with_folder, monkeypatch
):
    """An adapter names its base and a Modelfile its origin; both may stand in a question or in a file."""
    inside, outside = tmp_path / "models", tmp_path / "secrets"
    inside.mkdir()
    outside.mkdir()
    (outside / "config.json").write_text(CONFIG)
    monkeypatch.setattr("archcli.load.hub.download.find", lambda _: pytest.fail("the hub was asked"))
    given = [{**ADAPTER, "base_model_name_or_path": base} for base in (str(outside), "org/name")]
    given += [f"FROM {base}\nPARAMETER temperature 1\n" for base in (outside, "hf://org/name")]
    for number, text in enumerate(given * with_folder):
        name = "adapter_config.json" if isinstance(text, dict) else "Modelfile"
        (inside / str(number)).mkdir()
        (inside / str(number) / name).write_text(text if isinstance(text, str) else json.dumps(text))
        given.append(f"{number}/{name}")
    if with_folder:
        (inside / "config.json").symlink_to(outside / "config.json")
        (inside / "linked").mkdir()
        (inside / "linked" / "config.json").symlink_to(outside / "config.json")
        given.append("linked")
    for model in given:
        failed, text = asked_of(model, inside if with_folder else None)
        assert failed, (model, text)
        assert "outside of what is read here" in text or "the hub is not asked here" in text, (model, text)
    assert not asked_of({**ADAPTER, "base_model_name_or_path": "llama-3.1-8b"})[0]


def test_weights_beside_a_config_are_not_read_through_a_link(tmp_path):
    inside, outside = tmp_path / "models", tmp_path / "secrets"
    (inside / "mine").mkdir(parents=True)
    outside.mkdir()
    (outside / "w.safetensors").write_bytes(b"never read")
    (inside / "mine" / "config.json").write_text(CONFIG)
    (inside / "mine" / "w.safetensors").symlink_to(outside / "w.safetensors")
    failed, text = asked_of("mine", inside)
    assert not failed
    assert "were not read: outside of what is read here" in text


def test_a_pipe_and_a_link_to_itself_are_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "loop.yaml").symlink_to("loop.yaml")
    assert asked_of("pipe.yaml", tmp_path)[1].startswith("error: 'pipe.yaml' is neither a file nor a folder")
    assert asked_of("loop.yaml", tmp_path)[1].startswith("error: no preset or file 'loop.yaml'")


@pytest.mark.long
def test_the_option_names_the_folder(tmp_path):
    (tmp_path / "mine.yaml").write_text(PRESET.read_text())

    async def ask(client):
        return await client.call_tool("params", {"model": "mine.yaml"})

    answer = over_stdio(ask, "--folder", str(tmp_path))
    assert answer.structured_content["totals"]["params"] == 124_439_808
    assert over_stdio(ask).is_error


def test_without_its_package_it_says_how_to_install_it(cli, monkeypatch):
    monkeypatch.setattr("archcli.wings.doors.commands.mcp.find_spec", lambda _: None)
    done = cli("mcp")
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        "error: archcli mcp needs mcp, which is not installed\n"
        "  = help: pip install 'mcp>=2,<3', then: archcli mcp\n"
    )


def test_a_package_that_the_sdk_needs_is_missing(cli, monkeypatch):
    monkeypatch.setitem(
        sys.modules, "archcli.wings.doors.commands.mcp.server", None
    )  # as an import that fails
    monkeypatch.delattr("archcli.wings.doors.commands.mcp.server", raising=False)
    done = cli("mcp")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: mcp is installed, and cannot be imported: import of ")
    assert done.err.endswith("  = help: pip install 'mcp>=2,<3', then: archcli mcp\n")


def test_another_generation_of_its_package_is_refused(cli, monkeypatch):
    monkeypatch.setattr("archcli.wings.doors.commands.mcp.version", lambda _: "1.27.0")
    done = cli("mcp")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: archcli mcp needs mcp 2, and 1.27.0 is installed\n  = help: pip")


def test_a_folder_that_is_missing_is_refused_before_the_start(cli, tmp_path):
    done = cli("mcp", "--folder", tmp_path / "nowhere")
    assert (done.code, done.out) == (2, "")
    assert "no folder" in done.err
